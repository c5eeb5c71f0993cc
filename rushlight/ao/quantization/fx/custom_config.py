"""What users say of a model beside its configurations."""

from __future__ import annotations

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
    """Settings of `prepare_fx`: what is not looked into.

    >>> PrepareCustomConfig().set_non_traceable_module_names(["head"]).to_dict()
    {'non_traceable_module_name': ['head']}
    """

    def __init__(self):
        super().__init__()
        self.non_traceable_module_names = []
        self.non_traceable_module_classes = []

    def set_non_traceable_module_names(self, module_names):
        """Names of modules that stay whole."""
        self.non_traceable_module_names = list(module_names)
        return self

    def set_non_traceable_module_classes(self, module_classes):
        """Classes of modules that stay whole."""
        self.non_traceable_module_classes = list(module_classes)
        return self

    @classmethod
    def from_dict(cls, settings):
        """The same of a dictionary."""
        found = super().from_dict(settings)
        found.set_non_traceable_module_names(
            settings.get("non_traceable_module_name", [])
        )
        found.set_non_traceable_module_classes(
            settings.get("non_traceable_module_class", [])
        )
        return found

    def to_dict(self):
        """The same as a dictionary."""
        found = super().to_dict()
        for key, value in (
            ("non_traceable_module_name", self.non_traceable_module_names),
            ("non_traceable_module_class", self.non_traceable_module_classes),
        ):
            if value:
                found[key] = value
        return found
