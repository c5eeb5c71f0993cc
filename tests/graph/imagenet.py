"""A classifier's whole training: meters, top-5, resume, schedules, worker processes."""

import argparse
import os
import random
import shutil
import tempfile
import time
import warnings
from enum import Enum

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torch.nn.parallel
import torch.optim
import torch.utils.data
import torch.utils.data.distributed
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import Subset

best_acc1 = 0


class FakeData(torch.utils.data.Dataset):
    def __init__(self, size, shape, classes, transform=None):
        self.size, self.shape, self.classes, self.transform = (
            size,
            shape,
            classes,
            transform,
        )

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        rng_state = torch.get_rng_state()
        torch.manual_seed(index)
        img = torch.randn(*self.shape)
        target = torch.randint(0, self.classes, size=(1,), dtype=torch.long)[0]
        torch.set_rng_state(rng_state)
        return img if self.transform is None else self.transform(img), int(target)


class Summary(Enum):
    NONE = 0
    AVERAGE = 1


class AverageMeter:
    def __init__(self, name, fmt=":f", summary_type=Summary.AVERAGE):
        self.name, self.fmt, self.summary_type = name, fmt, summary_type
        self.reset()

    def reset(self):
        self.val = self.avg = self.sum = self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()
        self.avg = self.sum / self.count

    def __str__(self):
        return ("{name} {val" + self.fmt + "} ({avg" + self.fmt + "})").format(
            **self.__dict__
        )


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        maxk = max(topk)
        _, pred = output.topk(maxk, 1, True, True)
        pred = pred.t()
        correct = pred.eq(target.view(1, -1).expand_as(pred))
        return [
            correct[:k]
            .reshape(-1)
            .float()
            .sum(0, keepdim=True)
            .mul_(100.0 / target.size(0))
            for k in topk
        ]


def train(loader, model, criterion, optimizer, epoch, device, args):
    meters = [AverageMeter(n, ":.4f") for n in ("Loss", "Acc@1", "Acc@5")]
    model.train()
    end = time.time()
    for i, (images, target) in enumerate(loader):
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)
        output = model(images)
        loss = criterion(output, target)
        acc1, acc5 = accuracy(output, target, topk=(1, 5))
        for meter, value in zip(meters, (loss.item(), acc1[0], acc5[0])):
            meter.update(value, images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % args.print_freq == 0:
            print(f"[{epoch}][{i}]", "\t".join(str(m) for m in meters))
    assert time.time() > end


def validate(loader, model, criterion):
    top1 = AverageMeter("Acc@1", ":6.2f")
    losses = AverageMeter("Loss", ":.4e")
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            output = model(images)
            losses.update(criterion(output, target).item(), images.size(0))
            top1.update(accuracy(output, target, topk=(1, 5))[0][0], images.size(0))
    print(" *", top1, f"{losses.avg:.4f}")
    return top1.avg


def save_checkpoint(state, is_best, folder):
    filename = os.path.join(folder, "checkpoint.pth.tar")
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, os.path.join(folder, "model_best.pth.tar"))


def worker(gpu, ngpus_per_node, args, folder):
    global best_acc1
    if args.distributed:
        dist.init_process_group(backend="gloo", init_method=args.dist_url)
    torch.manual_seed(args.seed)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(inplace=True),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(128, 10),
    )
    if not torch.accelerator.is_available():
        print("using CPU, this will be slow")
        device = torch.device("cpu")
    model = torch.nn.DataParallel(model)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(
        model.parameters(),
        args.lr,
        momentum=args.momentum,
        weight_decay=args.weight_decay,
    )
    scheduler = StepLR(optimizer, step_size=1, gamma=0.1)
    if args.resume and os.path.isfile(args.resume):
        checkpoint = torch.load(args.resume, map_location=device, weights_only=False)
        args.start_epoch = checkpoint["epoch"]
        best_acc1 = checkpoint["best_acc1"].to(device)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        print(f"=> loaded checkpoint (epoch {checkpoint['epoch']})")
    train_dataset = FakeData(48, (3, 16, 16), 10)
    val_dataset = Subset(FakeData(32, (3, 16, 16), 10), range(16))
    train_sampler = None
    if args.distributed:
        train_sampler = torch.utils.data.distributed.DistributedSampler(train_dataset)
    train_loader = torch.utils.data.DataLoader(
        train_dataset,
        batch_size=args.batch_size,
        shuffle=(train_sampler is None),
        num_workers=args.workers,
        pin_memory=False,
        sampler=train_sampler,
    )
    val_loader = torch.utils.data.DataLoader(val_dataset, batch_size=8, num_workers=1)
    for epoch in range(args.start_epoch, args.epochs):
        train(train_loader, model, criterion, optimizer, epoch, device, args)
        acc1 = validate(val_loader, model, criterion)
        scheduler.step()
        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "arch": args.arch,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            },
            is_best,
            folder,
        )


def main(arguments, folder):
    parser = argparse.ArgumentParser()
    parser.add_argument("-a", "--arch", default="resnet18")
    parser.add_argument("-j", "--workers", default=2, type=int)
    parser.add_argument("--epochs", default=1, type=int)
    parser.add_argument("--start-epoch", default=0, type=int)
    parser.add_argument("-b", "--batch-size", default=12, type=int)
    parser.add_argument("--lr", default=0.1, type=float)
    parser.add_argument("--momentum", default=0.9, type=float)
    parser.add_argument("--wd", default=1e-4, type=float, dest="weight_decay")
    parser.add_argument("-p", "--print-freq", default=2, type=int)
    parser.add_argument("--resume", default="")
    parser.add_argument("--world-size", default=-1, type=int)
    parser.add_argument("--dist-url", default="tcp://127.0.0.1:23456")
    parser.add_argument("--seed", default=5, type=int)
    parser.add_argument("--multiprocessing-distributed", action="store_true")
    args = parser.parse_args(arguments)
    if args.seed is not None:
        random.seed(args.seed)
        torch.manual_seed(args.seed)
        cudnn.deterministic = True
        cudnn.benchmark = False
        warnings.warn("a seed slows things down", stacklevel=2)
    args.distributed = args.world_size > 1 or args.multiprocessing_distributed
    ngpus_per_node = (
        torch.accelerator.device_count() if torch.accelerator.is_available() else 1
    )
    if args.multiprocessing_distributed:
        mp.spawn(worker, nprocs=ngpus_per_node, args=(ngpus_per_node, args, folder))
    else:
        worker(None, ngpus_per_node, args, folder)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        main([], folder)
        main(["--epochs", "2", "--resume", f"{folder}/checkpoint.pth.tar"], folder)
