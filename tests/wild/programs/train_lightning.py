"""Lightning's trainer."""

import logging

import lightning as L
import torch

torch.manual_seed(0)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
losses = []


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)
        )

    def training_step(self, batch, i):
        x, y = batch
        value = torch.nn.functional.cross_entropy(self.net(x), y)
        losses.append(value.item())
        self.log("loss", value)
        return value

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


L.seed_everything(0)
data = torch.utils.data.TensorDataset(torch.randn(32, 8), torch.randint(0, 4, (32,)))
trainer = L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Net(), torch.utils.data.DataLoader(data, 16, shuffle=True))
print(*losses, sep="\n")
