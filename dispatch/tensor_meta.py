"""The class of `Tensor`: where attributes of a subclass are looked up (torch/_tensor.py has `_TensorMeta`)."""

from __future__ import annotations

from .core.tensor_function import HANDLER, disabled_tensor_function


class TensorMeta(type):
    """Puts the overridden attributes right before `Tensor` into the method resolution order of a subclass.

    So what a subclass and its mixins define comes first, ``super()`` finds the overridden attributes, and `Tensor`'s
    own do not ask whose they are.
    """

    def mro(cls) -> list[type]:
        """The usual order; with `OverriddenAttributes` in it for a class that takes part in ``__tensor_function__``."""
        order = super().mro()
        root = max((i for i, each in enumerate(order) if isinstance(each, TensorMeta)), default=0)
        if root == 0:
            return order
        handler = next((each.__dict__[HANDLER] for each in order if HANDLER in each.__dict__), None)
        tensor = order[root]
        if handler is disabled_tensor_function and cls.__bases__ == (tensor,):
            return order
        from .layers.overrides.subclass_attributes import overridden_attributes

        overridden = overridden_attributes()
        order = [each for each in order if each is not overridden]
        if handler is not disabled_tensor_function:
            order.insert(order.index(tensor), overridden)
        return order
