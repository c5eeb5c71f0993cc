"""A program in ONNX: its model, its files, and runs of it."""

import contextlib
import os
import tempfile

import rushlight as rl
from rushlight.onnx._model import LARGEST, save_model, tensor_proto
from rushlight.onnx.errors import OnnxExporterError
from rushlight.utils._pytree import tree_leaves


class ONNXProgram:
    """What `rushlight.onnx.export` gives: the model, and what it was made from.

    Args:
        proto: the model's message without its weights.
        weights: the model's own tensors by name: those of the state dict.
        exported_program: the `ExportedProgram` that was written.

    >>> import rushlight as rl
    >>> program = rl.onnx.export(rl.nn.ReLU(), (rl.ones(2),))
    >>> [node.op_type for node in program.model_proto.graph.node]
    ['Relu']
    """

    def __init__(self, proto, weights, exported_program=None):
        self._proto, self.weights = proto, weights
        self.exported_program = exported_program
        self._session = None
        self._folder = None

    def __repr__(self):
        graph = self._proto.graph
        ends = [
            ", ".join(one.name for one in side) for side in (graph.input, graph.output)
        ]
        return (
            f"ONNXProgram(inputs=({ends[0]}), outputs=({ends[1]}), "
            f"nodes={len(graph.node)}, weights={len(self.weights)})"
        )

    @property
    def model_proto(self):
        """The whole model as ``onnx.ModelProto``; larger ones than that can be are saved.

        Raises:
            OnnxExporterError: the weights are more than a message can hold.
        """
        import onnx

        total = sum(one.numel() * one.element_size() for one in self.weights.values())
        if total > LARGEST:
            raise OnnxExporterError(
                f"the model has {total} bytes of weights, a message of ONNX holds {LARGEST}"
                "\n  remedy: program.save(path) writes them to a file beside the model"
            )
        made = onnx.ModelProto()
        made.CopyFrom(self._proto)
        made.graph.initializer.extend(
            tensor_proto(*item) for item in self.weights.items()
        )
        return made

    def save(
        self,
        destination,
        *,
        include_initializers=True,
        keep_initializers_as_inputs=False,
        external_data=None,
    ):
        """Writes the model to a file, at once or not at all.

        Args:
            destination: a path, or a file open for bytes.
            include_initializers: whether the weights are part of it; without them they
                are inputs.
            keep_initializers_as_inputs: whether weights are inputs, too, with these
                values where nobody gives others.
            external_data: whether weights go to ``destination.data``; by itself where
                they are more than one message can hold.

        >>> import io
        >>> import rushlight as rl
        >>> file = io.BytesIO()
        >>> rl.onnx.export(rl.nn.Linear(2, 1), (rl.ones(1, 2),)).save(file)
        >>> rl.onnx.load(io.BytesIO(file.getvalue()))(rl.ones(1, 2)).shape
        rushlight.Size([1, 1])
        """
        inputs = self._proto.graph.input
        before = len(inputs)
        try:
            if keep_initializers_as_inputs or not include_initializers:
                inputs.extend(self._weight_infos())
            weights = self.weights if include_initializers else {}
            save_model(self._proto, weights, destination, external_data)
        finally:
            del inputs[before:]

    def _weight_infos(self):
        from rushlight.onnx._graph import Value
        from rushlight.onnx._model import value_info

        for name, tensor in self.weights.items():
            yield value_info(Value(name, tensor.dtype, tuple(tensor.shape)))

    def apply_weights(self, state_dict):
        """Replaces weights by those of a state dict.

        Args:
            state_dict: tensors by name; names that the model lacks are passed over.

        Raises:
            OnnxExporterError: a tensor has other sizes or another type.
        """
        for name, tensor in state_dict.items():
            own = self.weights.get(name)
            if own is None:
                continue
            if own.shape != tensor.shape or own.dtype is not tensor.dtype:
                raise OnnxExporterError(
                    f"apply_weights: {name} is {own.dtype}{list(own.shape)} in the model, "
                    f"but {tensor.dtype}{list(tensor.shape)} is given"
                )
            self.weights[name] = tensor
        self.release()

    def rename_axes(self, rename_mapping):
        """Gives open sizes other names.

        Args:
            rename_mapping: new names by the present ones.
        """
        graph = self._proto.graph
        for info in (*graph.input, *graph.output, *graph.value_info):
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param in rename_mapping:
                    dim.dim_param = rename_mapping[dim.dim_param]

    def optimize(self):
        """Takes out what nothing needs, merges what is there twice: done at export."""

    # -- runs --------------------------------------------------------------------------

    def initialize_inference_session(self, initializer=None):
        """Prepares a run by ONNX Runtime.

        Args:
            initializer: makes the session of a model's bytes or path.

        Raises:
            ImportError: ONNX Runtime is not installed.
        """
        if initializer is None:
            import onnxruntime

            def initializer(model):
                options = onnxruntime.SessionOptions()
                options.log_severity_level = 3
                return onnxruntime.InferenceSession(
                    model, options, providers=["CPUExecutionProvider"]
                )

        total = sum(one.numel() * one.element_size() for one in self.weights.values())
        if total <= LARGEST // 2:
            self._session = initializer(self.model_proto.SerializeToString())
            return
        self._folder = tempfile.TemporaryDirectory()
        path = os.path.join(self._folder.name, "model.onnx")
        self.save(path, external_data=True)
        self._session = initializer(path)

    def release(self):
        """Lets the session go, and what it holds."""
        self._session = None
        if self._folder is not None:
            with contextlib.suppress(OSError):
                self._folder.cleanup()
            self._folder = None

    def _feeds(self, args, kwargs):
        given = [
            one for one in tree_leaves((args, kwargs)) if isinstance(one, rl.Tensor)
        ]
        names = [one.name for one in self._proto.graph.input]
        if len(given) != len(names):
            raise OnnxExporterError(
                f"the model takes {len(names)} tensors ({', '.join(names)}), "
                f"{len(given)} are given"
            )
        return dict(zip(names, given))

    def __call__(self, *args, **kwargs):
        """Runs the model by ONNX Runtime; gives its results in a list.

        Raises:
            ImportError: ONNX Runtime is not installed.
            OnnxExporterError: there are more tensors, or fewer, than the model takes.
        """
        feeds = self._feeds(args, kwargs)
        if self._session is None:
            self.initialize_inference_session()
        arrays = {
            name: one.detach().cpu().contiguous().numpy() for name, one in feeds.items()
        }
        return [rl.from_numpy(one) for one in self._session.run(None, arrays)]

    def call_reference(self, *args, **kwargs):
        """Runs the model by Rushlight's own operators; gives its results in a list."""
        from rushlight.onnx.importing import module_of

        results = module_of(self.model_proto)(*self._feeds(args, kwargs).values())
        return list(results) if isinstance(results, (list, tuple)) else [results]

    def compute_values(self, value_names, args=(), kwargs=None):
        """What a run has computed on its way.

        Args:
            value_names: names of values inside the graph.
            args: the arguments; ``kwargs`` too.
        """
        from rushlight.onnx.importing import module_of

        proto = self.model_proto
        del proto.graph.output[:]
        for name in value_names:
            proto.graph.output.add().name = name
        results = module_of(proto)(*self._feeds(args, kwargs or {}).values())
        return list(results) if isinstance(results, (list, tuple)) else [results]
