"""What users say of a model beside its configurations."""

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig"]


class _Preserving:
    def __init__(self):
        self.preserved_attributes = []

    def set_preserved_attributes(self, attributes):
        """Names of attributes that the graph's module keeps, though it has no use of them."""
        self.preserved_attributes = list(attributes)
        return self

    @classmethod
    def from_dict(cls, settings):
        """The same of a dictionary."""
        found = cls()
        found.preserved_attributes = list(settings.get("preserved_attributes", []))
        return found

    def to_dict(self):
        """The same as a dictionary."""
        if not self.preserved_attributes:
            return {}
        return {"preserved_attributes": self.preserved_attributes}


class FuseCustomConfig(_Preserving):
    """Settings of `fuse_fx`."""


class ConvertCustomConfig(_Preserving):
    """Settings of `convert_fx`."""


class PrepareCustomConfig(_Preserving):
    """Settings of `prepare_fx`: what is not looked into, what is integers from outside.

    >>> PrepareCustomConfig().set_non_traceable_module_names(["head"]).to_dict()
    {'non_traceable_module_name': ['head']}
    """

    KEYS = {  # of dictionaries, by attributes
        "non_traceable_module_names": "non_traceable_module_name",
        "non_traceable_module_classes": "non_traceable_module_class",
        "input_quantized_indexes": "input_quantized_idxs",
        "output_quantized_indexes": "output_quantized_idxs",
    }

    def __init__(self):
        super().__init__()
        for name in self.KEYS:
            setattr(self, name, [])

    def set_non_traceable_module_names(self, module_names):
        """Names of modules that stay whole."""
        self.non_traceable_module_names = list(module_names)
        return self

    def set_non_traceable_module_classes(self, module_classes):
        """Classes of modules that stay whole."""
        self.non_traceable_module_classes = list(module_classes)
        return self

    def set_input_quantized_indexes(self, indexes):
        """Which inputs of the graph come quantized."""
        self.input_quantized_indexes = list(indexes)
        return self

    def set_output_quantized_indexes(self, indexes):
        """Which outputs of the graph stay quantized."""
        self.output_quantized_indexes = list(indexes)
        return self

    @classmethod
    def from_dict(cls, settings):
        """The same of a dictionary."""
        found = super().from_dict(settings)
        for name, key in cls.KEYS.items():
            setattr(found, name, list(settings.get(key, [])))
        return found

    def to_dict(self):
        """The same as a dictionary."""
        found = {key: getattr(self, name) for name, key in self.KEYS.items()}
        return super().to_dict() | {k: value for k, value in found.items() if value}
