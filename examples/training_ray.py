"""Data-parallel training in Ray actors, and a search over its settings with Ray Tune or Ax.

Run it where Ray is installed (``pip install "ray[tune]"``, and ``ax-platform`` for ``ax``):

    python examples/training_ray.py fit --workers 2
    python examples/training_ray.py tune --trials 8
    python examples/training_ray.py ax --trials 12

Ray places the actors, on as many machines as its cluster has; between them are Rushlight's
process groups. Tune stops trials that fall behind, and a trial goes on from its checkpoint;
Ax looks for settings that are good both in accuracy and in the time of an answer.
"""

import argparse
import os
import socket
import tempfile
import time

import rushlight as torch
from rushlight import distributed as dist
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel

DEFAULTS = {"width": 32, "depth": 1, "lr": 0.1, "epochs": 8}


def spirals(count=512):
    """Points of two spirals, and which of them each is on."""
    generator = torch.Generator().manual_seed(0)
    turn = torch.rand(count, generator=generator) * 4
    label = torch.arange(count) % 2
    angle = turn + label * torch.pi
    points = torch.stack([turn * angle.cos(), turn * angle.sin()], 1)
    return points, label


def network(width, depth):
    """A perceptron of some hidden layers."""
    torch.manual_seed(0)
    sizes = [2] + [width] * depth
    layers = []
    for before, after in zip(sizes, sizes[1:]):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], 2))


def latency_of(model, calls=200):
    """Seconds of the model's answer to one question: the best of many."""
    question, best = torch.zeros(1, 2), float("inf")
    with torch.no_grad():
        for _ in range(calls):
            began = time.perf_counter()
            model(question)
            best = min(best, time.perf_counter() - began)
    return best


def train(config, report=None, checkpoint=None):
    """Train on this rank's part of the points.

    Args:
        config: ``width``, ``depth``, ``lr``, ``epochs``; what is left out is as usual.
        report: called after each epoch with the numbers so far and the state to keep.
        checkpoint: the state that an earlier run reported last, or None.

    Returns:
        Accuracy over all points, loss, and the time of an answer.
    """
    config = {**DEFAULTS, **config}
    rank = dist.get_rank() if dist.is_initialized() else 0
    size = dist.get_world_size() if dist.is_initialized() else 1
    points, labels = spirals()
    net = network(config["width"], config["depth"])
    model = DistributedDataParallel(net) if dist.is_initialized() else net
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    first = 0
    if checkpoint is not None:
        net.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        first = checkpoint["epoch"]
    found = {}
    for epoch in range(first, config["epochs"]):
        for _ in range(20):
            optimizer.zero_grad()
            out = model(points[rank::size])
            nn.functional.cross_entropy(out, labels[rank::size]).backward()
            optimizer.step()
        with torch.no_grad():
            out = net(points)
            loss = nn.functional.cross_entropy(out, labels).item()
        accuracy = (out.argmax(1) == labels).float().mean().item()
        found = {"accuracy": accuracy, "loss": loss, "latency": latency_of(net)}
        if report is not None:
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            report(found, {**state, "epoch": epoch + 1})
    return found


class Rank:
    """One rank of a program, in a process that Ray has placed."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size

    def address(self, host):
        """Where the ranks meet: a free port of rank 0's machine."""
        with socket.socket() as probe:
            probe.bind((host, 0))
            return host, probe.getsockname()[1]

    def run(self, host, port, config):
        """Join the others and train."""
        where = f"tcp://{host}:{port}"
        dist.init_process_group("gloo", where, rank=self.rank, world_size=self.size)
        try:
            return train(config)
        finally:
            dist.destroy_process_group()


def fit(ray, workers, config):
    """Train in as many actors.

    Args:
        ray: the module.
        workers: how many.
        config: as ``train`` takes it.

    Returns:
        What each rank found.
    """
    actor = ray.remote(Rank)
    ranks = [actor.remote(rank, workers) for rank in range(workers)]
    host = ray.util.get_node_ip_address()
    host, port = ray.get(ranks[0].address.remote(host))
    return ray.get([each.run.remote(host, port, config) for each in ranks])


def trial(tune, config):
    """One trial of Ray Tune: reports each epoch, and goes on from its checkpoint."""
    kept, state = tune.get_checkpoint(), None
    if kept is not None:
        with kept.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))

    def report(numbers, state):
        with tempfile.TemporaryDirectory() as folder:
            torch.save(state, os.path.join(folder, "state.pt"))
            tune.report(numbers, checkpoint=tune.Checkpoint.from_directory(folder))

    train(config, report, state)


def search(tune, scheduler, trials):
    """Look for the best settings; trials that fall behind are stopped early.

    Args:
        tune: the module ``ray.tune``.
        scheduler: what stops trials.
        trials: how many there are.

    Returns:
        The best settings and their numbers.
    """
    space = {
        "width": tune.choice([4, 8, 16, 32, 64]),
        "depth": tune.choice([1, 2]),
        "lr": tune.loguniform(0.01, 1.0),
    }
    options = tune.TuneConfig(
        metric="loss", mode="min", scheduler=scheduler, num_samples=trials
    )
    tuner = tune.Tuner(
        lambda config: trial(tune, config), param_space=space, tune_config=options
    )
    best = tuner.fit().get_best_result()
    return best.config, {k: best.metrics[k] for k in ("accuracy", "loss", "latency")}


def explore(client, trials):
    """Look for settings that are good in accuracy and in latency.

    Args:
        client: Ax's ``Client``, with its parameters and objective.
        trials: how many there are.

    Returns:
        The settings that no other is better than in both, and their numbers.
    """
    for _ in range(trials):
        for index, settings in client.get_next_trials(max_trials=1).items():
            found = train(settings)
            client.complete_trial(
                trial_index=index,
                raw_data={k: found[k] for k in ("accuracy", "latency")},
            )
    return [
        (settings, numbers) for settings, numbers, *_ in client.get_pareto_frontier()
    ]


def ax_client():
    """A client of Ax for the space of small perceptrons."""
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    client = Client(random_seed=0)
    client.configure_experiment(
        parameters=[
            ChoiceParameterConfig(
                name="width",
                values=[4, 8, 16, 32, 64],
                parameter_type="int",
                is_ordered=True,
            ),
            RangeParameterConfig(name="depth", bounds=(1, 2), parameter_type="int"),
            RangeParameterConfig(
                name="lr", bounds=(0.01, 1.0), parameter_type="float", scaling="log"
            ),
        ]
    )
    client.configure_optimization(objective="accuracy, -latency")
    return client


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fit", "tune", "ax"])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--trials", type=int, default=8)
    given = parser.parse_args()
    if given.what == "ax":
        for settings, numbers in explore(ax_client(), given.trials):
            print(settings, numbers)
        return
    import ray

    ray.init(include_dashboard=False)
    if given.what == "fit":
        for rank, found in enumerate(fit(ray, given.workers, {})):
            print(f"rank {rank}: {found}")
        return
    from ray import tune
    from ray.tune.schedulers import ASHAScheduler

    settings, numbers = search(tune, ASHAScheduler(), given.trials)
    print(settings, numbers)


if __name__ == "__main__":
    main()
