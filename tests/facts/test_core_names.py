"""Names that programs reach for in PyTorch's compiled core."""

import rushlight as rl


def test_functions_of_layers_stand_beside_the_reader_of_module_to():
    device, dtype, flag, _ = rl._C._nn._parse_to("cpu", rl.float64)
    assert (device, dtype, flag) == (rl.device("cpu"), rl.float64, False)
    assert rl._C._nn.gelu(rl.zeros(1)).item() == 0
