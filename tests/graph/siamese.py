"""Pairs of pictures by one network twice: a changed ResNet-like trunk, xavier weights."""

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR

torch.manual_seed(1)


class Block(nn.Module):
    expansion = 1

    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = None
        if stride != 1 or inplanes != planes:
            self.downsample = nn.Sequential(
                nn.Conv2d(inplanes, planes, 1, stride, bias=False),
                nn.BatchNorm2d(planes),
            )

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = nn.functional.relu(self.bn1(self.conv1(x)), inplace=True)
        out = self.bn2(self.conv2(out))
        out += identity
        return nn.functional.relu(out, inplace=True)


class SiameseNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        trunk = nn.Sequential(
            nn.Conv2d(1, 8, 7, 2, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
            Block(8, 8),
            Block(8, 16, 2),
            nn.AdaptiveAvgPool2d((1, 1)),
            nn.Linear(1, 1),
        )
        self.trunk = torch.nn.Sequential(*(list(trunk.children())[:-1]))
        self.fc = nn.Sequential(
            nn.Linear(32, 16), nn.ReLU(inplace=True), nn.Linear(16, 1)
        )
        self.sigmoid = nn.Sigmoid()
        self.trunk.apply(self.init_weights)
        self.fc.apply(self.init_weights)

    def init_weights(self, m):
        if isinstance(m, nn.Linear):
            torch.nn.init.xavier_uniform_(m.weight)
            m.bias.data.fill_(0.01)

    def forward_once(self, x):
        output = self.trunk(x)
        return output.view(output.size()[0], -1)

    def forward(self, input1, input2):
        output = torch.cat((self.forward_once(input1), self.forward_once(input2)), 1)
        return self.sigmoid(self.fc(output))


model = SiameseNetwork()
print(sum(p.numel() for p in model.parameters() if p.requires_grad))
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
criterion = nn.BCELoss()
one, two = torch.rand(12, 1, 28, 28), torch.rand(12, 1, 28, 28)
targets = torch.randint(0, 2, (12,)).float()
for epoch in range(3):
    for i in range(0, 12, 4):
        optimizer.zero_grad()
        outputs = model(one[i : i + 4], two[i : i + 4]).squeeze()
        loss = criterion(outputs, targets[i : i + 4])
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} lr {scheduler.get_last_lr()} loss {loss.item():.4f}")
    scheduler.step()
model.eval()
with torch.no_grad():
    pred = torch.where(model(one, two).squeeze() > 0.5, 1, 0)
    print(pred.eq(targets.view_as(pred)).sum().item())
