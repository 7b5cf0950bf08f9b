"""A `LightningModule` that a `Trainer` fits for two epochs."""

import json
import logging

import lightning
import torch
from deterministic import fill, normal
from torch.utils.data import DataLoader, TensorDataset

logging.getLogger("lightning").setLevel(logging.ERROR)


class Regressor(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16, bias=False), torch.nn.ReLU(), torch.nn.Linear(16, 1, bias=False)
        )

    def training_step(self, batch, index):
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


x = normal(64, 8)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
                            enable_progress_bar=False, enable_model_summary=False)  # fmt: skip
trainer.fit(fill(Regressor()), DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16))
print(json.dumps({"loss": trainer.callback_metrics["loss"].item()}))
