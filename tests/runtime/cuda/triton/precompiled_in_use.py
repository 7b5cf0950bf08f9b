"""Program that precompiles a function of tensors that it already has, on an emulated device that it already uses."""

import triten as tt
from triten.runtime.cuda.driver import current_driver

x = tt.zeros(64, device="cuda")
driver = type(current_driver())


def step():
    assert tt.cuda.is_precompiling() and tt.cuda.get_device_name() == "PTX emulator"
    x.add_(tt.zeros(64, device="cuda") + 1)


result = tt.cuda.precompile(step, workers=1)
assert type(current_driver()) is driver and not tt.cuda.is_precompiling()
assert x.tolist() == [0.0] * 64, "nothing has run"
print(result.planned, result.compiled, tt.zeros(3, device="cuda").tolist())
