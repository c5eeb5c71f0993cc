

def test_functions_of_layers_stand_beside_the_reader_of_module_to():
    import rushlight

    device, dtype, flag, _ = rushlight._C._nn._parse_to("cpu", rushlight.float64)
    assert (device, dtype, flag) == (rushlight.device("cpu"), rushlight.float64, False)
    assert rushlight._C._nn.gelu(rushlight.zeros(1)).item() == 0
