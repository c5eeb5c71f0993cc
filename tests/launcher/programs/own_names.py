"""What asks whether a thing is the package's own: printed, to be alike under both names."""

import io
import warnings

import torch
from torch import fx, nn

warnings.simplefilter("ignore")
torch.manual_seed(0)


def total(value):
    if isinstance(value, (tuple, list)):
        return [total(part) for part in value]
    return round(float(value.detach().double().abs().sum()), 3)


def scripted(module, *operands):
    """A module's program, and what it gives before and after an archive."""
    program = torch.jit.script(module.eval())
    file = io.BytesIO()
    torch.jit.save(program, file)
    file.seek(0)
    print(program.original_name, total(program(*operands)))
    print(total(torch.jit.load(file)(*operands)), len(program.code))


x, image = torch.randn(4, 2, 8), torch.randn(2, 3, 8, 8)
scripted(nn.Linear(8, 3), x)
scripted(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.MaxPool2d(2)), image)
scripted(nn.LayerNorm(8), x)
scripted(nn.GRUCell(8, 3), x[0])
scripted(nn.RNNCell(8, 3), x[0])
scripted(nn.Embedding(5, 3), torch.tensor([1, 4]))
scripted(nn.MultiheadAttention(8, 2), x, x, x)
print(total(torch.jit.script(nn.LSTM(8, 3))(x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.act = nn.Linear(8, 4), nn.GELU()
        self.rest = nn.Sequential(nn.Dropout(0.0), nn.Linear(4, 2))

    def forward(self, x):
        return self.rest(self.act(self.first(x))).pow(2).mean()


net = Net()
print(fx.symbolic_trace(net).code)
print(torch.export.export(net, (x,)).graph_module.code)
step = torch.compile(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(12):
    optimizer.zero_grad()
    loss = step(x)
    loss.backward()
    optimizer.step()
print(total(loss), dict(torch._dynamo.utils.counters["stats"]))
