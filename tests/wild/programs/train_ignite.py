"""A trainer and metrics of PyTorch-Ignite."""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss, Precision

torch.manual_seed(0)
model = torch.nn.Linear(5, 3)
x = torch.randn(32, 5)
y = x.argmax(1) % 3
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
criterion = torch.nn.CrossEntropyLoss()
trainer = create_supervised_trainer(
    model, torch.optim.SGD(model.parameters(), 0.1), criterion
)
trainer.add_event_handler(
    Events.ITERATION_COMPLETED(every=4), lambda engine: print(engine.state.output)
)
trainer.run(data, 2)
metrics = {"a": Accuracy(), "l": Loss(criterion), "p": Precision(average=True)}
evaluator = create_supervised_evaluator(model, metrics)
evaluator.run(data)
print(*(evaluator.state.metrics[name] for name in "alp"), sep="\n")
