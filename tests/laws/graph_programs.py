"""Random programs of views, in-place changes, switches and backward passes.

``run(framework, seed)`` tells step by step what the program did: whether it raised, and
afterwards every tensor's value, version and place in the graph. A step that raises is
part of the program: the next ones go on from what it left.
"""

import random
import re
import warnings

DTYPE = "float64"


class Machine:
    """The tensors of one program, and what each step does to them."""

    def __init__(self, framework, seed):
        self.rl = framework
        self.choose = random.Random(seed)
        dtype = getattr(framework, DTYPE)
        values = [[self.choose.uniform(0.5, 2.0) for _ in range(3)] for _ in range(2)]
        leaf = framework.tensor(values, dtype=dtype).requires_grad_()
        plain = framework.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=dtype)
        second = framework.tensor([1.5, 0.5, 1.0], dtype=dtype).requires_grad_()
        self.tensors = [leaf, leaf * 2, plain, second]
        self.calls = []

    def any(self):
        """One of the tensors, the later ones more often."""
        if self.choose.random() < 0.5:
            return self.choose.choice(self.tensors[-3:])
        return self.choose.choice(self.tensors)

    def maybe_without_grad(self, action):
        if self.choose.random() < 0.25:
            with self.rl.no_grad():
                return action()
        return action()

    # -- steps -------------------------------------------------------------------

    def view(self):
        source, choose = self.any(), self.choose
        kind = choose.choice(
            ["select", "slice", "transpose", "reshape", "unsqueeze", "unbind"]
            + ["expand", "as_strided", "chunk", "squeeze", "view_as", "diagonal"]
        )
        dims = source.dim()
        dim = choose.randrange(dims) if dims else 0
        numbers = [choose.randrange(100) for _ in range(2)]
        self.kind = kind

        def make():
            if kind == "select":
                return source.select(dim, numbers[0] % source.shape[dim])
            if kind == "slice":
                start = numbers[0] % source.shape[dim]
                return source.narrow(
                    dim, start, numbers[1] % (source.shape[dim] - start) + 1
                )
            if kind == "transpose":
                return source.transpose(dim, numbers[0] % max(dims, 1))
            if kind == "reshape":
                return source.reshape(-1)
            if kind == "unsqueeze":
                return source.unsqueeze(0)
            if kind == "unbind":
                parts = source.unbind(dim)
                return parts[numbers[0] % len(parts)]
            if kind == "chunk":
                parts = source.chunk(2, dim)
                return parts[numbers[0] % len(parts)]
            if kind == "expand":
                return source.expand(2, *source.shape)
            if kind == "as_strided":
                return source.as_strided((2,), (1,), source.storage_offset())
            if kind == "squeeze":
                return source.squeeze()
            if kind == "view_as":
                return source.view_as(source)
            return source.diagonal(0, 0, 1)

        self.tensors.append(self.maybe_without_grad(make))

    def cut(self):
        source = self.any()
        kind = self.kind = self.choose.choice(["detach", "data", "detach_"])
        if kind == "detach_":
            source.detach_()
        else:
            self.tensors.append(source.detach() if kind == "detach" else source.data)

    def change(self):
        target, choose = self.any(), self.choose
        kind = choose.choice(
            ["mul", "add", "fill", "zero", "relu", "sigmoid", "exp", "setitem"]
            + ["masked_fill", "lt", "pow", "clamp", "copy", "addcmul", "sub", "neg"]
            + ["mul_tensor", "add_tensor", "copy_tensor", "div_tensor", "unsqueeze"]
        )
        fitting = [one for one in self.tensors if one.shape == target.shape]
        other = choose.choice(fitting)
        number = choose.uniform(0.5, 1.5)
        self.kind = kind

        def act():
            if kind == "mul":
                target.mul_(number)
            elif kind == "add":
                target.add_(number)
            elif kind == "fill":
                target.fill_(number)
            elif kind == "zero":
                target.zero_()
            elif kind == "relu":
                target.relu_()
            elif kind == "sigmoid":
                target.sigmoid_()
            elif kind == "exp":
                target.mul_(0.25).exp_()
            elif kind == "setitem":
                target[..., 0] = number
            elif kind == "masked_fill":
                if 0 in target.stride():
                    return  # PyTorch writes, and warns that it will not for ever
                target.masked_fill_(other > 1, number)
            elif kind == "lt":
                target.lt_(number)
            elif kind == "pow":
                target.pow_(2)
            elif kind == "clamp":
                target.clamp_(0.1, 1.9)
            elif kind == "addcmul":
                target.addcmul_(other, other.detach(), value=0.5)
            elif kind == "sub":
                target.sub_(other * 0.5)
            elif kind == "neg":
                target.neg_()
            elif kind == "mul_tensor":
                target.mul_(other * 0.5)
            elif kind == "add_tensor":
                target.add_(other)
            elif kind == "div_tensor":
                target.div_(other.exp())
            elif kind == "unsqueeze":
                target.unsqueeze_(0)
            else:
                target.copy_(other * 3.0)

        self.maybe_without_grad(act)

    def compute(self):
        source, choose = self.any(), self.choose
        kind = choose.choice(
            ["mul", "exp", "sigmoid", "square", "sum", "cat", "where", "div", "clone"]
            + ["scale", "contiguous", "softmax", "index"]
        )
        self.kind = kind
        fitting = [one for one in self.tensors if one.shape == source.shape]
        other = choose.choice(fitting)

        def make():
            if kind == "mul":
                return source * other * 0.5
            if kind == "exp":
                return (source * 0.1).exp()
            if kind == "sigmoid":
                return source.sigmoid()
            if kind == "square":
                return source * source * 0.25
            if kind == "sum":
                return source.sum(-1, keepdim=True) + source
            if kind == "cat":
                return self.rl.cat([source.reshape(-1), other.reshape(-1)])[:4]
            if kind == "where":
                return self.rl.where(source > 1, source, other)
            if kind == "div":
                return source / (1 + other * other)
            if kind == "scale":
                return source * 0.5
            if kind == "contiguous":
                return source.contiguous()
            if kind == "softmax":
                return source.softmax(-1)
            if kind == "index":
                return source[..., :1]
            return source.clone()

        self.tensors.append(self.maybe_without_grad(make))

    def switch(self):
        target = self.any()
        kind = self.choose.choice(["on", "off", "data", "retain", "hook", "version"])
        self.kind = kind
        if kind == "on":
            target.requires_grad_()
        elif kind == "off":
            target.requires_grad_(False)
        elif kind == "data":
            fitting = [one for one in self.tensors if one.shape == target.shape]
            target.data = self.choose.choice(fitting).detach().clone()
        elif kind == "retain":
            target.retain_grad()
        elif kind == "hook":
            number = len(self.calls)
            self.calls.append(0)
            factor = self.choose.choice([None, 2.0, 0.5])

            def hook(grad):
                self.calls[number] += 1
                return None if factor is None else grad * factor

            target.register_hook(hook)
        else:
            self.calls.append(target._version)

    def go_back(self):
        root, choose = self.any(), self.choose
        kind = choose.choice(["backward", "backward", "grad", "create", "inputs"])
        self.kind = kind
        keep = choose.random() < 0.6
        inputs = choose.sample(self.tensors, 2)
        weight = self.rl.full_like(root, 0.5)
        if kind == "backward":
            root.backward(weight, retain_graph=keep)
        elif kind == "inputs":
            root.backward(weight, retain_graph=keep, inputs=inputs)
        else:
            grads = self.rl.autograd.grad(
                root,
                inputs,
                weight,
                retain_graph=keep,
                create_graph=kind == "create",
                allow_unused=True,
            )
            self.tensors += [each.clone() for each in grads if each is not None]

    # -- what is seen ------------------------------------------------------------

    def step(self):
        steps = [self.view] * 4 + [self.change] * 4 + [self.compute] * 3
        steps += [self.cut, self.switch, self.go_back, self.go_back]
        action = self.choose.choice(steps)
        random_state = self.choose.getstate()
        count = len(self.tensors)
        try:
            action()
            outcome = "ok"
        except (RuntimeError, IndexError, ValueError, TypeError) as error:
            outcome = f"{type(error).__name__}: {error}"
        # after an error both sides go on with the same choices
        self.choose.setstate(random_state)
        self.choose.random()
        del self.tensors[count:][6:]
        del self.tensors[:-12]
        return f"{action.__name__} {self.kind}", outcome

    def facts(self, tensor):
        """Everything that can be asked of a tensor."""
        found = [tensor._version, tensor.is_leaf, tensor._is_view()]
        try:
            maker = tensor.grad_fn
            found += [tensor.requires_grad, maker is None, tensor.retains_grad]
        except RuntimeError as error:
            found.append(f"RuntimeError: {error}")
        values = tensor.detach().clone()
        grad = None
        if tensor.is_leaf or tensor.retains_grad:
            grad = tensor.grad
            if grad is not None:
                grad = grad.detach().clone().tolist()
        return found, values.tolist(), grad


def run(framework, seed, length=14):
    """What each step did, with all that can be seen after it."""
    history = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine = Machine(framework, seed)
        for _ in range(length):
            name, outcome = machine.step()
            seen = []
            for tensor in machine.tensors:
                try:
                    seen.append(machine.facts(tensor))
                except RuntimeError as error:
                    seen.append(f"RuntimeError: {error}")
            history.append((name, outcome, seen, list(machine.calls)))
    return history


def difference(found, expected):
    """The first place where two histories differ, or None."""
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        if not same(ours, theirs):
            return number, ours, theirs
    return None


def same(a, b):
    """Whether two values agree: errors by their kind and first words."""
    if isinstance(a, str) and isinstance(b, str):
        return words(a) == words(b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= 1e-7 * max(abs(a), abs(b), 1e-3) or a != a != b
    return a == b and type(a) is type(b)


def words(text):
    """The first words of an error, without names that differ."""
    text = re.sub(r"Output (\d+) of \w+", r"Output \1", text)
    return text.replace("rushlight", "torch").split()[:5]
