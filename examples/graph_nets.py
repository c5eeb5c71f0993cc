"""Graph networks learn the topics of papers from few labels and who cites whom.

python examples/graph_nets.py
python examples/graph_nets.py --backend torch    # the same script on PyTorch

A graph is made with the sizes and habits of Cora: 2,708 papers of seven topics, 18 of 1,433
words in each, some 5,000 citations, four of five of which stay within a topic. Twenty papers
of a topic have a label. A network of words alone, a graph convolutional network (Kipf and
Welling) and a graph attention network (Velickovic et al.) have the same table of words,
whose gradients are sparse: `SparseAdam` takes them, or `SGD` with ``--table sgd``.
"""

import json
import time
from dataclasses import dataclass

from report import Progress, draw, options, start, torch

nn, F = torch.nn, torch.nn.functional
TOPICS, WORDS, IN_PAPER, LABELS = 7, 1433, 18, 20
OWN_WORDS, OWN_SHARE, LOYALTY = 100, 0.2, 0.8
TESTED = 1000


@dataclass
class Graph:
    """Papers with their words, and citations in both directions, each paper with itself.

    Attributes:
        words: ``[papers, words of a paper]``.
        topics: of the papers.
        sources, targets: ends of the edges, ordered by target.
        shares: for each edge one over the root of its ends' degrees.
        learnt, tested: papers.
    """

    words: torch.Tensor
    topics: torch.Tensor
    sources: torch.Tensor
    targets: torch.Tensor
    shares: torch.Tensor
    learnt: torch.Tensor
    tested: torch.Tensor

    @property
    def papers(self):
        return len(self.topics)

    def matrix(self):
        """The shares as a matrix compressed by rows, which are targets."""
        counts = torch.bincount(self.targets, minlength=self.papers)
        rows = torch.cat([torch.zeros(1, dtype=torch.long), counts.cumsum(0)])
        size = self.papers, self.papers
        return torch.sparse_csr_tensor(rows, self.sources, self.shares, size)


def citations(papers, seed):
    """A graph of papers."""
    chance = torch.Generator().manual_seed(seed)

    def draw_from(high, *size):
        return torch.randint(high, size, generator=chance)

    topics = draw_from(TOPICS, papers)
    own = draw_from(WORDS, TOPICS, OWN_WORDS)[topics]
    picked = own.gather(1, draw_from(OWN_WORDS, papers, IN_PAPER))
    special = torch.rand(papers, IN_PAPER, generator=chance) < OWN_SHARE
    words = torch.where(special, picked, draw_from(WORDS, papers, IN_PAPER))

    ordered, places = topics.sort(stable=True)
    begins = torch.searchsorted(ordered, torch.arange(TOPICS))
    sizes = torch.bincount(topics, minlength=TOPICS)
    citing = draw_from(papers, 2 * papers)
    near = (
        begins[topics[citing]] + draw_from(1 << 30, 2 * papers) % sizes[topics[citing]]
    )
    loyal = torch.rand(2 * papers, generator=chance) < LOYALTY
    cited = torch.where(loyal, places[near], draw_from(papers, 2 * papers))

    every = torch.arange(papers)
    ends = torch.cat([citing * papers + cited, cited * papers + citing])
    ends = torch.cat([ends, every * papers + every]).unique()
    targets, sources = ends // papers, ends % papers
    roots = torch.bincount(targets, minlength=papers).float().rsqrt()
    learnt = torch.cat([(topics == t).nonzero()[:LABELS, 0] for t in range(TOPICS)])
    tested = torch.ones(papers, dtype=torch.bool).index_fill(0, learnt, False)
    tested = tested.nonzero()[:TESTED, 0]
    shares = roots[sources] * roots[targets]
    return Graph(words, topics, sources, targets, shares, learnt, tested)


class Words(nn.Module):
    """The table of words, and a layer for the topics: no citation is looked at."""

    def __init__(self, hidden=16):
        super().__init__()
        self.table = nn.EmbeddingBag(WORDS, hidden, mode="mean", sparse=True)
        nn.init.normal_(self.table.weight, std=0.3)
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(hidden, TOPICS)

    def forward(self, graph):
        return self.out(self.dropout(F.relu(self.table(graph.words))))


class GCN(Words):
    """Each layer ends with the mean of a paper's neighbours: a sparse product."""

    def forward(self, graph):
        matrix = graph.matrix()
        hidden = F.relu(torch.sparse.mm(matrix, self.table(graph.words)))
        return torch.sparse.mm(matrix, self.out(self.dropout(hidden)))


class Attention(nn.Module):
    """Neighbours of a paper by what heads think of both: softmax over a target's edges."""

    def __init__(self, heads, size):
        super().__init__()
        self.of_source = nn.Parameter(torch.randn(heads, size) / size**0.5)
        self.of_target = nn.Parameter(torch.randn(heads, size) / size**0.5)

    def forward(self, x, graph):
        """``[papers, heads, size]`` to the same."""
        shape = graph.papers, x.shape[1]
        scores = (x * self.of_source).sum(-1)[graph.sources]
        scores = scores + (x * self.of_target).sum(-1)[graph.targets]
        scores = F.leaky_relu(scores, 0.2)
        index = graph.targets.unsqueeze(1).expand(-1, shape[1])
        most = scores.detach().new_full(shape, float("-inf"))
        most = most.scatter_reduce(0, index, scores.detach(), "amax")
        powers = (scores - most[graph.targets]).exp()
        sums = powers.new_zeros(shape).index_add(0, graph.targets, powers)
        weights = powers / sums[graph.targets]
        messages = weights.unsqueeze(-1) * x[graph.sources]
        return torch.zeros_like(x).index_add(0, graph.targets, messages)


class GAT(Words):
    """Two layers of attention over neighbours: eight heads, then one."""

    def __init__(self, heads=8, size=8):
        super().__init__(heads * size)
        self.heads = heads
        self.first, self.second = Attention(heads, size), Attention(1, TOPICS)

    def forward(self, graph):
        x = self.table(graph.words).unflatten(1, (self.heads, -1))
        x = self.dropout(F.elu(self.first(x, graph)).flatten(1))
        return self.second(self.out(x).unsqueeze(1), graph).squeeze(1)


def optimizers(model, args):
    """One for the table, whose gradients are sparse, and one for the rest."""
    table = [model.table.weight]
    rest = [p for p in model.parameters() if p is not model.table.weight]
    of_table = torch.optim.SparseAdam(table, lr=args.lr)
    if args.table == "sgd":
        of_table = torch.optim.SGD(table, lr=1000 * args.lr)
    return of_table, torch.optim.Adam(rest, lr=args.lr, weight_decay=5e-4)


def learn(model, graph, args, title):
    """Losses of the steps, and seconds of one."""
    steps = optimizers(model, args)
    progress = Progress(title, args.epochs)
    model.train()
    begun = time.perf_counter()
    for _ in range(args.epochs):
        for optimizer in steps:
            optimizer.zero_grad()
        loss = F.cross_entropy(model(graph)[graph.learnt], graph.topics[graph.learnt])
        loss.backward()
        for optimizer in steps:
            optimizer.step()
        progress.add(loss.item())
    seconds = (time.perf_counter() - begun) / args.epochs
    progress.close()
    return progress.losses, seconds


def main():
    parser = options(__doc__, "graph_nets", epochs=100, lr=1e-2)
    parser.add_argument("--papers", type=int, default=2708)
    parser.add_argument("--table", choices=["adam", "sgd"], default="adam")
    args = parser.parse_args()
    start(args)
    graph = citations(args.papers, args.seed)
    history = {"backend": args.backend, "losses": {}, "accuracy": {}, "seconds": {}}
    for title, kind in ("words alone", Words), ("GCN", GCN), ("GAT", GAT):
        torch.manual_seed(args.seed + 1)
        model = kind()
        losses, seconds = learn(model, graph, args, title)
        model.eval()
        with torch.no_grad():
            found = model(graph).argmax(1)[graph.tested] == graph.topics[graph.tested]
        right = 100 * found.float().mean().item()
        print(
            f"  {right:.1f} % of {len(found)} papers right, {1e3 * seconds:.1f} ms a step"
        )
        for key, value in ("losses", losses), ("accuracy", right), ("seconds", seconds):
            history[key][title] = value
    (args.out / "history.json").write_text(json.dumps(history))
    draw(args.out / "curves.png", {"Loss": history["losses"]})


if __name__ == "__main__":
    main()
