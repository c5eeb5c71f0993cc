"""Pictures in another's style: instance norm with running statistics, Gram matrices, LBFGS."""

import re
from collections import namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim import Adam

torch.manual_seed(42)


class ConvLayer(torch.nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride):
        super().__init__()
        self.reflection_pad = torch.nn.ReflectionPad2d(kernel_size // 2)
        self.conv2d = torch.nn.Conv2d(in_channels, out_channels, kernel_size, stride)

    def forward(self, x):
        return self.conv2d(self.reflection_pad(x))


class ResidualBlock(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = ConvLayer(channels, channels, 3, 1)
        self.in1 = torch.nn.InstanceNorm2d(channels, affine=True)
        self.conv2 = ConvLayer(channels, channels, 3, 1)
        self.in2 = torch.nn.InstanceNorm2d(
            channels, affine=True, track_running_stats=True
        )
        self.relu = torch.nn.ReLU()

    def forward(self, x):
        out = self.relu(self.in1(self.conv1(x)))
        return self.in2(self.conv2(out)) + x


class UpsampleConvLayer(torch.nn.Module):
    def __init__(self, in_channels, out_channels, kernel_size, stride, upsample=None):
        super().__init__()
        self.upsample = upsample
        self.layer = ConvLayer(in_channels, out_channels, kernel_size, stride)

    def forward(self, x):
        if self.upsample:
            x = F.interpolate(x, mode="nearest", scale_factor=self.upsample)
        return self.layer(x)


class TransformerNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = ConvLayer(3, 8, 9, 1)
        self.in1 = torch.nn.InstanceNorm2d(8, affine=True)
        self.conv2 = ConvLayer(8, 8, 3, 2)
        self.res1 = ResidualBlock(8)
        self.deconv1 = UpsampleConvLayer(8, 8, 3, 1, upsample=2)
        self.deconv3 = ConvLayer(8, 3, 9, 1)
        self.relu = torch.nn.ReLU()

    def forward(self, X):
        y = self.relu(self.in1(self.conv1(X)))
        y = self.res1(self.conv2(y))
        return self.deconv3(self.relu(self.deconv1(y)))


class Slices(torch.nn.Module):
    def __init__(self):
        super().__init__()
        features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(8, 8, 3, padding=1),
            nn.ReLU(inplace=True),
        )
        self.slice1, self.slice2 = torch.nn.Sequential(), torch.nn.Sequential()
        for x in range(2):
            self.slice1.add_module(str(x), features[x])
        for x in range(2, 5):
            self.slice2.add_module(str(x), features[x])
        for param in self.parameters():
            param.requires_grad = False

    def forward(self, X):
        h1 = self.slice1(X)
        h2 = self.slice2(h1)
        return namedtuple("Outputs", ["relu1", "relu2"])(h1, h2)


def gram_matrix(y):
    (b, ch, h, w) = y.size()
    features = y.view(b, ch, w * h)
    return features.bmm(features.transpose(1, 2)) / (ch * h * w)


def normalize_batch(batch):
    mean = batch.new_tensor([0.485, 0.456, 0.406]).view(-1, 1, 1)
    std = batch.new_tensor([0.229, 0.224, 0.225]).view(-1, 1, 1)
    return (batch.div_(255.0) - mean) / std


net, vgg, mse_loss = TransformerNet(), Slices(), torch.nn.MSELoss()
optimizer = Adam(net.parameters(), 1e-3)
style = (torch.rand(3, 16, 16) * 255).repeat(2, 1, 1, 1)
gram_style = [gram_matrix(y) for y in vgg(normalize_batch(style))]
for batch_id in range(4):
    x = torch.rand(2, 3, 16, 16).mul(255)
    optimizer.zero_grad()
    y = net(x)
    features_y, features_x = vgg(normalize_batch(y)), vgg(normalize_batch(x))
    content_loss = 1e2 * mse_loss(features_y.relu2, features_x.relu2)
    style_loss = 0.0
    for ft_y, gm_s in zip(features_y, gram_style):
        style_loss += mse_loss(gram_matrix(ft_y), gm_s[:2, :, :])
    total_loss = content_loss + 1e3 * style_loss
    total_loss.backward()
    optimizer.step()
    print(f"{batch_id}: {content_loss.item():.4f} {style_loss.item():.6f}")
state_dict = net.state_dict()
for k in list(state_dict.keys()):
    if re.search(r"in\d+\.running_(mean|var)$", k):
        del state_dict[k]
print(net.load_state_dict(state_dict, strict=False).missing_keys)
picture = torch.rand(1, 3, 16, 16, requires_grad=True)
wish = vgg(torch.rand(1, 3, 16, 16)).relu2
lbfgs = torch.optim.LBFGS([picture], max_iter=5, line_search_fn="strong_wolfe")
runs = [0]


def closure():
    with torch.no_grad():
        picture.clamp_(0, 1)
    lbfgs.zero_grad()
    loss = mse_loss(vgg(picture).relu2, wish)
    loss.backward()
    runs[0] += 1
    return loss


for _ in range(2):
    print(f"{lbfgs.step(closure).item():.6f} {runs[0]}")
