"""Models of well-known packages become the graphs that PyTorch makes of them."""

import pytest

# The code of each graph over PyTorch 2.13: the number of steps and a digest of the text.
TORCH = {
    "torchvision.models.resnet18()": (71, "c9f90110b6e5cb3933fce2595450d47f"),
    "torchvision.models.mobilenet_v3_small()": (
        159,
        "1ebf98d9242c7af75ea5ff3538012e5a",
    ),
    "torchvision.models.densenet121()": (433, "7a543dcf303756412476970bdf799bef"),
    "torchvision.models.shufflenet_v2_x0_5()": (
        369,
        "e2348347bf515145a6a33a7a3260858b",
    ),
    "torchvision.models.convnext_tiny()": (232, "5b0d37271e72901efd9de1665cacf785"),
    "torchvision.models.vit_b_16()": (236, "257939608b189923a403a45ecdd0e469"),
    "torchvision.models.swin_t()": (247, "821989afb4846a2f527bbed056e467f5"),
    "timm.create_model('resnet10t')": (60, "bece52b655e120e176bf5118e13c8b82"),
    "timm.create_model('convnext_atto')": (255, "26555a033e88d61559f34fbb46d866e4"),
    "timm.create_model('mixer_s32_224')": (179, "cdd1eeb35745b5ab4b7b661e9b66ea94"),
    "timm.create_model('ghostnet_050')": (369, "a59bcc83078772e23a163df0e2b2283e"),
    "timm.create_model('levit_128s')": (549, "eb592998b2ac30f9ef7552924f44fa0f"),
}


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_graph_is_pytorchs_to_the_letter(wild, package):
    models = [model for model in TORCH if model.startswith(package)]
    text = f"import hashlib, torch, {package}\nfrom torch import fx\n"
    for model in models:
        text += (
            f"graph = fx.symbolic_trace({model}.eval())\n"
            "digest = hashlib.md5(graph.code.encode()).hexdigest()\n"
            "print(len(graph.graph.nodes), digest)\n"
        )
    found = [line.split() for line in wild(text)[-len(models) :]]
    assert [(int(count), digest) for count, digest in found] == [
        TORCH[model] for model in models
    ]


def test_a_graph_of_a_package_computes_the_same(wild):
    [line] = wild(
        "import torch, torchvision\nfrom torch import fx\n"
        "model = torchvision.models.resnet18().eval()\n"
        "x = torch.randn(1, 3, 64, 64)\n"
        "print(torch.equal(model(x), fx.symbolic_trace(model)(x)))\n"
    )
    assert line == "True"
