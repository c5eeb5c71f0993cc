"""Files of events, and the object that programs write them by."""

import os
import socket
import time
from datetime import datetime

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from rushlight.utils.tensorboard import summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One file of events, written by a thread.

    Args:
        log_dir: the folder.
        max_queue: events that may wait.
        flush_secs: seconds until waiting events are written.
        filename_suffix: the end of the file's name.
    """

    def __init__(self, log_dir, max_queue=10, flush_secs=120, filename_suffix=""):
        self.event_writer = EventFileWriter(
            str(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self):
        """The folder."""
        return self.event_writer.get_logdir()

    def add_event(self, event, step=None, walltime=None):
        """Writes an event, of now or of a given time."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary, global_step=None, walltime=None):
        """Writes values."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self):
        """Writes what waits."""
        self.event_writer.flush()

    def close(self):
        """Writes what waits, and ends the file."""
        self.event_writer.close()

    def reopen(self):
        """Begins where it was ended: TensorBoard's writer cannot, so a new file is."""
        self.event_writer.reopen()


def default_bins():
    """Limits of intervals that grow by a tenth, on both sides of zero."""
    value, positive = 1e-12, []
    while value < 1e20:
        positive.append(value)
        value *= 1.1
    return [-v for v in positive[::-1]] + [0] + positive


class SummaryWriter:
    """Writes a run's numbers, pictures and texts to files that TensorBoard shows.

    Args:
        log_dir: the folder; by default one in ``runs``, with the time and the machine.
        comment: the end of the default folder's name.
        purge_step: what earlier runs in the folder wrote from this step on is hidden.
        max_queue: events that may wait.
        flush_secs: seconds until waiting events are written.
        filename_suffix: the end of the files' names.
    """

    def __init__(
        self,
        log_dir=None,
        comment="",
        purge_step=None,
        max_queue=10,
        flush_secs=120,
        filename_suffix="",
    ):
        if not log_dir:
            moment = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{moment}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer = self.all_writers = None
        self._get_file_writer()
        self.default_bins = default_bins()

    def _get_file_writer(self):
        """The folder's own file; a new one after ``close``."""
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                start = SessionLog(status=SessionLog.START)
                for event in (
                    Event(step=self.purge_step, file_version="brain.Event:2"),
                    Event(step=self.purge_step, session_log=start),
                ):
                    self.file_writer.add_event(event, self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _open(self, folder):
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def get_logdir(self):
        """The folder."""
        return self.log_dir

    def _put(self, message, step, walltime):
        self._get_file_writer().add_summary(message, step, walltime)

    def add_scalar(
        self,
        tag,
        scalar_value,
        global_step=None,
        walltime=None,
        new_style=False,
        double_precision=False,
    ):
        """One number of a curve.

        Args:
            tag: the curve's name; ``a/b`` is shown under ``a``.
            scalar_value: the number, or a tensor of one.
            global_step: its place on the curve.
            walltime: its time, in seconds; now by default.
            new_style: as a tensor.
            double_precision: a tensor of float64.
        """
        message = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._put(message, global_step, walltime)

    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        """One number of each of several curves that are shown in one picture.

        Args:
            main_tag: the picture's name.
            tag_scalar_dict: from the curves' names to their numbers.
            global_step: their place on the curves.
            walltime: their time, in seconds; now by default.
        """
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        for tag, value in tag_scalar_dict.items():
            path = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if path not in self.all_writers:
                self.all_writers[path] = self._open(path)
            message = summary.scalar(main_tag, value)
            self.all_writers[path].add_summary(message, global_step, walltime)

    def add_tensor(self, tag, tensor, global_step=None, walltime=None):
        """A whole tensor."""
        self._put(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag,
        values,
        global_step=None,
        bins="tensorflow",
        walltime=None,
        max_bins=None,
    ):
        """How values are spread.

        Args:
            tag: the histogram's name.
            values: a tensor or an array.
            global_step: its place among others of the name.
            bins: ``"tensorflow"``, or what ``numpy.histogram`` takes.
            walltime: its time, in seconds; now by default.
            max_bins: at most so many intervals.
        """
        if isinstance(bins, str) and bins == "tensorflow":
            bins = self.default_bins
        message = summary.histogram(tag, values, bins, max_bins)
        self._put(message, global_step, walltime)

    def add_histogram_raw(
        self,
        tag,
        min,
        max,
        num,
        sum,
        sum_squares,
        bucket_limits,
        bucket_counts,
        global_step=None,
        walltime=None,
    ):
        """A histogram that the program has made itself.

        Raises:
            ValueError: there are not as many limits as counts.
        """
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                "len(bucket_limits) != len(bucket_counts), see the document."
            )
        message = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._put(message, global_step, walltime)

    def add_image(
        self, tag, img_tensor, global_step=None, walltime=None, dataformats="CHW"
    ):
        """A picture.

        Args:
            tag: its name.
            img_tensor: bytes, or numbers from 0 to 1.
            global_step: its place among others of the name.
            walltime: its time, in seconds; now by default.
            dataformats: what the dimensions are: ``C``, ``H`` and ``W``.
        """
        message = summary.image(tag, img_tensor, dataformats=dataformats)
        self._put(message, global_step, walltime)

    def add_images(
        self, tag, img_tensor, global_step=None, walltime=None, dataformats="NCHW"
    ):
        """Several pictures side by side, eight in a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_image_with_boxes(
        self,
        tag,
        img_tensor,
        box_tensor,
        global_step=None,
        walltime=None,
        rescale=1,
        dataformats="CHW",
        labels=None,
    ):
        """A picture with rectangles (left, top, right, bottom) drawn on it."""
        labels = [labels] if isinstance(labels, str) else labels
        message = summary.image_boxes(
            tag, img_tensor, box_tensor, rescale, dataformats, labels
        )
        self._put(message, global_step, walltime)

    def add_video(self, tag, vid_tensor, global_step=None, fps=4, walltime=None):
        """Moving pictures, those of a batch side by side.

        Args:
            tag: their name.
            vid_tensor: bytes, or numbers from 0 to 1: ``(N, T, C, H, W)``.
            global_step: their place among others of the name.
            fps: pictures in a second.
            walltime: their time, in seconds; now by default.
        """
        from rushlight.utils.tensorboard import media

        self._put(media.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self, tag, snd_tensor, global_step=None, sample_rate=44100, walltime=None
    ):
        """A sound of one channel.

        Args:
            tag: its name.
            snd_tensor: amplitudes from -1 to 1.
            global_step: its place among others of the name.
            sample_rate: samples in a second.
            walltime: its time, in seconds; now by default.
        """
        from rushlight.utils.tensorboard import media

        self._put(media.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_mesh(
        self,
        tag,
        vertices,
        colors=None,
        faces=None,
        config_dict=None,
        global_step=None,
        walltime=None,
    ):
        """Surfaces, or clouds of points.

        Args:
            tag: their name.
            vertices: places in space: ``(batch, points, 3)``.
            colors: of the points, from 0 to 255.
            faces: the numbers of each triangle's points.
            config_dict: options of the display.
            global_step: their place among others of the name.
            walltime: their time, in seconds; now by default.
        """
        from rushlight.utils.tensorboard import media

        message = media.mesh(tag, vertices, colors, faces, config_dict)
        self._put(message, global_step, walltime)

    def add_figure(self, tag, figure, global_step=None, close=True, walltime=None):
        """A figure of matplotlib's, or several, as pictures.

        Args:
            tag: its name.
            figure: one figure, or a list of them of one size.
            global_step: its place among others of the name.
            close: whether the figure is closed.
            walltime: its time, in seconds; now by default.
        """
        import numpy as np
        from matplotlib import pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        def pixels(one):
            canvas = FigureCanvasAgg(one)
            canvas.draw()
            found = np.asarray(canvas.buffer_rgba())[:, :, :3]
            if close:
                pyplot.close(one)
            return found.transpose(2, 0, 1)

        if isinstance(figure, list):
            pictures = np.stack([pixels(one) for one in figure])
            self.add_images(tag, pictures, global_step, walltime)
        else:
            self.add_image(tag, pixels(figure), global_step, walltime)

    def add_text(self, tag, text_string, global_step=None, walltime=None):
        """A text, which may be Markdown."""
        self._put(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag,
        labels,
        predictions,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """Precision and recall of a classifier at many thresholds.

        Args:
            tag: the curve's name.
            labels: zeros and ones.
            predictions: from 0 to 1.
            global_step: its place among others of the name.
            num_thresholds: how many thresholds.
            weights: of the samples.
            walltime: its time, in seconds; now by default.
        """
        labels, predictions = summary.make_np(labels), summary.make_np(predictions)
        message = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._put(message, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag,
        true_positive_counts,
        false_positive_counts,
        true_negative_counts,
        false_negative_counts,
        precision,
        recall,
        global_step=None,
        num_thresholds=127,
        weights=None,
        walltime=None,
    ):
        """Precision and recall that are known, with the counts that they come from.

        Args:
            tag: the curve's name.
            true_positive_counts, false_positive_counts: at each threshold.
            true_negative_counts, false_negative_counts: the same.
            precision, recall: the same.
            global_step: its place among others of the name.
            num_thresholds: how many thresholds.
            weights: chooses nothing: the counts have them.
            walltime: its time, in seconds; now by default.
        """
        rows = [true_positive_counts, false_positive_counts, true_negative_counts]
        rows += [false_negative_counts, precision, recall]
        message = summary.pr_curve_raw(tag, rows, num_thresholds)
        self._put(message, global_step, walltime)

    def add_onnx_graph(self, prototxt):
        """An ONNX model as a graph of its nodes.

        Args:
            prototxt: the model's file.
        """
        from rushlight.utils.tensorboard.graphs import graph_of_onnx

        event = Event(graph_def=graph_of_onnx(prototxt).SerializeToString())
        self._get_file_writer().add_event(event)

    def add_graph(
        self, model, input_to_model=None, verbose=False, use_strict_trace=True
    ):
        """What a model does to its inputs, as a graph of operators inside of modules.

        Args:
            model: the module; it is called once, without gradients.
            input_to_model: its argument, or a tuple of them.
            verbose: whether the graph is printed, too.
            use_strict_trace: nothing: the call is recorded as it runs.
        """
        from rushlight.utils.tensorboard.graphs import graph_of

        graph = graph_of(model, input_to_model)
        if verbose:
            print(graph)
        event = Event(graph_def=graph.SerializeToString())
        self._get_file_writer().add_event(event)

    def add_custom_scalars(self, layout):
        """Which scalars are shown together."""
        self._put(summary.custom_scalars(layout), None, None)

    def add_custom_scalars_multilinechart(
        self, tags, category="default", title="untitled"
    ):
        """Several scalars in one picture."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags, category="default", title="untitled"
    ):
        """A scalar between a lower and an upper one.

        Raises:
            AssertionError: there are not three of them.
        """
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self,
        hparam_dict,
        metric_dict,
        hparam_domain_discrete=None,
        run_name=None,
        global_step=None,
    ):
        """The choices that a run was made with, and the numbers to compare runs by.

        Args:
            hparam_dict: the choices by name.
            metric_dict: the numbers by name.
            hparam_domain_discrete: what the choices could have been.
            run_name: of the folder inside this one; by default the time.
            global_step: the numbers' place.
        """
        messages = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(
            self._get_file_writer().get_logdir(), run_name or str(time.time())
        )
        with SummaryWriter(log_dir=folder) as inner:
            for message in messages:
                inner.file_writer.add_summary(message, global_step)
            for name, value in metric_dict.items():
                inner.add_scalar(name, value, global_step)

    def add_embedding(
        self,
        mat,
        metadata=None,
        label_img=None,
        global_step=None,
        tag="default",
        metadata_header=None,
    ):
        """Vectors for TensorBoard's projector.

        Args:
            mat: one vector in a row.
            metadata: a label, or a list of them, for each.
            label_img: not written.
            global_step: the folder's name.
            tag: the vectors' name.
            metadata_header: the names of several labels.

        Raises:
            NotImplementedError: pictures are given.
        """
        import csv

        from google.protobuf import text_format

        if label_img is not None:
            raise NotImplementedError(
                "add_embedding: pictures of the vectors are not written\n"
                "  remedy: leave label_img out"
            )
        vectors = summary.make_np(mat)
        inner = f"{str(global_step or 0).zfill(5)}/{tag}"
        top = self._get_file_writer().get_logdir()
        folder = os.path.join(top, inner)
        os.makedirs(folder, exist_ok=True)
        config = ProjectorConfig()
        path = os.path.join(top, "projector_config.pbtxt")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                text_format.Parse(file.read(), config)
        entry = config.embeddings.add()
        entry.tensor_name = f"{tag}:{str(global_step or 0).zfill(5)}"
        entry.tensor_path = f"{inner}/tensors.tsv"
        with open(
            os.path.join(folder, "tensors.tsv"), "w", encoding="utf-8", newline=""
        ) as file:
            csv.writer(file, "excel-tab").writerows(vectors.tolist())
        if metadata is not None:
            if len(metadata) != len(vectors):
                raise AssertionError("#labels should equal with #data points")
            entry.metadata_path = f"{inner}/metadata.tsv"
            with open(
                os.path.join(folder, "metadata.tsv"), "w", encoding="utf-8", newline=""
            ) as file:
                rows = [row if metadata_header else [row] for row in metadata]
                head = [metadata_header] if metadata_header else []
                csv.writer(file, "excel-tab").writerows(head + rows)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text_format.MessageToString(config))

    def flush(self):
        """Writes what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self):
        """Writes what waits, and ends the files; a later value begins new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()
