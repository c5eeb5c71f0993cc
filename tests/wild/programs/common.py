"""What the programs share: small data of a fixed seed, and a few steps of training."""

import torch

# A small transformer, by the names that most families give their sizes; and one whose
# heads share keys and values in pairs.
SIZES = {
    "vocab_size": 100,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}


def images():
    """Four pictures and their classes."""
    torch.manual_seed(1)
    return torch.randn(4, 3, 64, 64), torch.arange(4)


def tokens():
    """Four rows of twelve words, and which of them are words."""
    torch.manual_seed(1)
    words = torch.randint(0, 100, (4, 12))
    mask = torch.ones(4, 12, dtype=torch.long)
    mask[1, 8:] = 0
    return words, mask


def train(optimizer, loss, steps=4):
    """Prints the loss of every step."""
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss()
        value.backward()
        optimizer.step()
        print(value.item())


def train_on(data, make, objective, change=None):
    """Makes a model and trains it on the data: ``objective(model, *data)`` is its loss.

    The order counts, as each part draws from the generator or seeds it: the model, then
    its optimizer (``change`` of the model), then the data.
    """
    torch.manual_seed(0)
    model = make()
    optimizer = (change or adamw)(model)
    given = data()
    train(optimizer, lambda: objective(model, *given))


def adamw(model):
    """The optimizer of most programs."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def train_on_images(make, scores=lambda out: out, change=None):
    """Trains a classifier of pictures; ``scores`` finds them in what it returns."""

    def objective(model, x, y):
        return torch.nn.functional.cross_entropy(scores(model(x)), y)

    train_on(images, make, objective, change)


def train_on_words(make, classes=False, change=None):
    """Trains a model that says its loss: of the words themselves, or of two classes."""

    def objective(model, x, mask):
        labels = torch.tensor([0, 1, 0, 1]) if classes else x
        return model(input_ids=x, attention_mask=mask, labels=labels).loss

    train_on(tokens, make, objective, change)
