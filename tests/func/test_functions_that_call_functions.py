"""Functions of one's own whose gradients are calls of such functions, transformed."""

import pytest

import rushlight as rl
from rushlight import func
from rushlight.autograd import Function, gradcheck


class Product(Function):
    """Its gradient is a product; examples are counted by the rule that is made."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return Product.apply(grad, y), Product.apply(grad, x)

    @staticmethod
    def jvp(ctx, x_tangent, y_tangent):
        x, y = ctx.saved_tensors
        return x_tangent * y + y_tangent * x


class NumpyProduct(Function):
    """The same in NumPy, with a rule of its own; and a factor that has a default."""

    @staticmethod
    def forward(x, y, factor=1):
        return rl.tensor(x.numpy() * y.numpy() * factor)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, ctx.factor = inputs
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        given = grad, y, ctx.factor
        return NumpyProduct.apply(*given), NumpyProduct.apply(grad, x), None

    @staticmethod
    def vmap(info, in_dims, x, y, factor):
        x = x if in_dims[0] is None else x.movedim(in_dims[0], 0)
        y = y if in_dims[1] is None else y.movedim(in_dims[1], 0)
        return NumpyProduct.apply(x, y, factor), 0

    @staticmethod
    def jvp(ctx, x_tangent, y_tangent, _):
        return Product.jvp(ctx, x_tangent, y_tangent)


class Sorted(Function):
    @staticmethod
    def forward(x):
        return x.sort()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        (places,) = ctx.saved_tensors
        assert not places.requires_grad
        return grad.gather(-1, places.argsort())


class Doubled(Function):
    @staticmethod
    def forward(x):
        return x.mul_(2)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.mark_dirty(inputs[0])

    @staticmethod
    def backward(ctx, grad):
        return Product.apply(grad, rl.tensor(2.0))

    @staticmethod
    def vmap(info, in_dims, x):
        Doubled.apply(x)
        return x, in_dims[0]


X = rl.tensor([1.0, 2.0, 3.0])
Y = rl.tensor([2.0, 3.0, 5.0])
BOTH = pytest.mark.parametrize("product", [Product, NumpyProduct])


@BOTH
def test_a_jacobian_has_its_rows_in_their_places(product):
    assert rl.equal(func.jacrev(product.apply)(X, Y), rl.diag(Y))
    assert rl.equal(func.jacrev(product.apply, 1)(X, Y), rl.diag(X))


@BOTH
def test_second_derivatives_are_those_of_the_formula(product):
    found = func.hessian(lambda x, y: product.apply(product.apply(x, x), y).sum())(X, Y)
    assert rl.equal(found, rl.diag(2 * Y))


@BOTH
def test_a_pulled_back_vector_belongs_to_no_graph_that_is_over(product):
    _, pull = func.vjp(lambda x, y: product.apply(x, y), X, Y)
    found = pull(rl.ones(3))
    assert [rl.equal(a, b) for a, b in zip(found, (Y, X), strict=True)] == [True, True]
    assert not any(one.requires_grad for one in found)


def test_missing_arguments_are_the_defaults_of_forward():
    assert rl.equal(NumpyProduct.apply(X, Y), X * Y)
    assert rl.equal(NumpyProduct.apply(X, Y, factor=3), X * Y * 3)
    assert rl.equal(func.vmap(NumpyProduct.apply)(X, Y), X * Y)
    with pytest.raises(TypeError, match="missing a required argument: 'y'"):
        NumpyProduct.apply(X)
    with pytest.raises(TypeError, match="too many positional arguments"):
        NumpyProduct.apply(X, Y, 1, 2)


def test_gradients_of_gradients_pass_outputs_that_have_none():
    def once(x):
        return func.grad(lambda y: (Sorted.apply(y)[0] * Y).sum())(x).sum()

    assert rl.equal(func.grad(once)(X), rl.zeros(3))
    x = X.clone().requires_grad_()
    values, _ = Sorted.apply(x)
    (found,) = rl.autograd.grad(values, x, rl.ones(3), create_graph=True)
    assert not found.requires_grad


def test_what_is_written_in_place_is_what_returns_from_every_level():
    rows = rl.stack([X, Y])
    found = func.vmap(func.grad(lambda x: Doubled.apply(x.clone()).sum()))(rows)
    assert rl.equal(found, rl.full((2, 3), 2.0))
    held = rows.clone()
    assert rl.equal(func.vmap(Doubled.apply)(held), rows * 2)
    assert rl.equal(held, rows * 2)


def test_what_has_no_gradient_has_no_vector_to_pull_back():
    with pytest.raises(RuntimeError, match="must be floating-point or complex Tensors"):
        func.vjp(rl.argsort, X)
    with pytest.raises(RuntimeError, match="must be floating-point or complex Tensors"):
        func.jacrev(lambda x: Sorted.apply(x)[1])(X)


def test_functionalize_refuses_functions_of_ones_own():
    with pytest.raises(RuntimeError, match="NYI: Functionalize rule"):
        func.functionalize(Product.apply)(X, Y)


def test_a_gradient_that_forgets_its_cotangent_fails_the_check():
    class Forgetful(Product):
        generate_vmap_rule = False

        @staticmethod
        def forward(x):
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0]

    x = X[:1].double().requires_grad_()
    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output"):
        gradcheck(Forgetful.apply, (x,))
