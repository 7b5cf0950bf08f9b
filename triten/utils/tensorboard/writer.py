"""`SummaryWriter`: logs what a program measures to files that TensorBoard reads."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from google.protobuf import text_format
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.summary.writer.event_file_writer import EventFileWriter

from ...dispatch.tensor import Tensor
from . import summary
from .images import figure_to_image, make_np
from .projector import write_embedding

Step = int | None
Time = float | None


class FileWriter:
    """One log: events in a file of a folder (`torch.utils.tensorboard.FileWriter`).

    Args:
        log_dir: the folder, which is made.
        max_queue: The number of events to buffer before writing.
        flush_secs: The maximum time between writes, in seconds.
        filename_suffix: The suffix of the file's name.
    """

    def __init__(
        self, log_dir: Any, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = ""
    ) -> None:
        self.event_writer = EventFileWriter(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """Return the log directory."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: Step = None, walltime: Time = None) -> None:
        """Log an event."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: Step = None, walltime: Time = None) -> None:
        """Log a summary."""
        self.add_event(Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write pending events."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write pending events and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Open a new file for further events."""
        self.event_writer.reopen()


def default_bins() -> list[float]:
    """Return the default bin limits of histograms: symmetric around 0, growing by a factor of 1.1."""
    limits = []
    limit = 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return [*(-each for each in reversed(limits)), 0, *limits]


class SummaryWriter:
    """Logs for TensorBoard (`torch.utils.tensorboard.SummaryWriter`).

    Every ``add_...`` takes a tag, a name whose parts are divided by ``/``, `global_step`, and `walltime`, seconds since
    1970 that take the place of now. Values are tensors of any device, arrays or numbers.

    Args:
        log_dir: the folder; by default one in ``runs``, with the time and the machine's name.
        comment: The suffix of the default folder.
        purge_step: The step from which an earlier log in the folder is discarded.
        max_queue: The number of events to buffer before writing.
        flush_secs: The maximum time between writes, in seconds.
        filename_suffix: The suffix of the files' names.

    Example::

        from triten.utils.tensorboard import SummaryWriter

        with SummaryWriter("runs/first") as writer:
            for step in range(100):
                writer.add_scalar("loss/train", loss, step)
            writer.add_histogram("weights", model.weight, step)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: Step = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            import socket
            from datetime import datetime

            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = log_dir
        self.purge_step = purge_step
        self.max_queue = max_queue
        self.flush_secs = flush_secs
        self.filename_suffix = filename_suffix
        self.default_bins = default_bins()
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._projector = ProjectorConfig()
        self._get_file_writer()

    def _new_writer(self, folder: Any) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """Return the log writer; open a new one after `close`."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._new_writer(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                step, self.purge_step = self.purge_step, None
                self.file_writer.add_event(Event(step=step, file_version="brain.Event:2"))
                log = SessionLog(status=SessionLog.START)
                self.file_writer.add_event(Event(step=step, session_log=log))
        return self.file_writer

    def _add(self, content: Any, step: Step = None, walltime: Time = None) -> None:
        self._get_file_writer().add_summary(content, step, walltime)

    def get_logdir(self) -> Any:
        """Return the log directory."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Step = None,
        walltime: Time = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Log a number. `new_style` logs it as a tensor, with `double_precision` one of 64 bits."""
        self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Step = None,
        walltime: Time = None,
    ) -> None:
        """Log several numbers that are drawn in one chart; each has a log of its own in a folder below."""
        walltime = time.time() if walltime is None else walltime
        folder = self._get_file_writer().get_logdir()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            own = f"{folder}/{main_tag.replace('/', '_')}_{tag}"
            if own not in self.all_writers:
                self.all_writers[own] = self._new_writer(own)
            self.all_writers[own].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Tensor, global_step: Step = None, walltime: Time = None) -> None:
        """Log a tensor as it is."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Step = None,
        bins: Any = "tensorflow",
        walltime: Time = None,
        max_bins: int | None = None,
    ) -> None:
        """Log how values are distributed. `bins` is as NumPy's histograms take it, or ``"tensorflow"``."""
        bins = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: Step = None,
        walltime: Time = None,
    ) -> None:
        """Log a histogram that was made elsewhere. Raises ValueError for other numbers of limits than of counts."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError(
                f"len(bucket_limits) != len(bucket_counts), {len(bucket_limits)} != {len(bucket_counts)}"
            )
        content = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(content, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Step = None,
        walltime: Time = None,
        dataformats: str = "CHW",
    ) -> None:
        """Log a picture, of bytes or of numbers from 0 to 1, whose dimensions `dataformats` names. Needs Pillow."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Step = None,
        walltime: Time = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Log several pictures in a grid. Needs Pillow."""
        self._add(summary.image(tag, img_tensor, dataformats=dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Step = None,
        walltime: Time = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Log a picture with boxes, each left, top, right, bottom. Needs Pillow."""
        labels = [labels] if isinstance(labels, str) else labels
        if labels is not None and len(labels) != box_tensor.shape[0]:
            labels = None
        content = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(content, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: Step = None, close: bool = True, walltime: Time = None
    ) -> None:
        """Log a figure of matplotlib's, or a list of them, which are closed unless `close` is False."""
        formats = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, figure_to_image(figure, close), global_step, walltime, formats)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Step = None, fps: float = 4, walltime: Time = None
    ) -> None:
        """Log videos, ``[number, time, colors, rows, columns]``, beside each other. Needs Pillow."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Step = None,
        sample_rate: int = 44100,
        walltime: Time = None,
    ) -> None:
        """Log a sound of one channel, of numbers from -1 to 1."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Step = None, walltime: Time = None) -> None:
        """Log a Markdown text."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> NoReturn:
        """Raise NotImplementedError: graphs of models are not drawn."""
        raise NotImplementedError(
            "SummaryWriter.add_graph: graphs of models are not drawn; tt.func.make_graph records one"
        )

    def add_onnx_graph(self, prototxt: Any) -> NoReturn:
        """Raise NotImplementedError: graphs of models are not drawn."""
        raise NotImplementedError("SummaryWriter.add_onnx_graph: graphs of models are not drawn")

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Step = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Log the rows of a matrix as embeddings for the projector, with optional labels and images.

        Raises:
            AssertionError: The number of labels or images differs from the number of rows.
        """
        step = str(global_step or 0).zfill(5)
        encoded = tag.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")
        folder = Path(self._get_file_writer().get_logdir())
        embedding_folder = folder / step / encoded
        embedding_folder.mkdir(parents=True, exist_ok=True)
        name = f"{tag}:{step}"
        vectors = make_np(mat)
        info = write_embedding(
            embedding_folder, name, vectors, metadata, label_img, metadata_header, f"{step}/{encoded}"
        )
        self._projector.embeddings.extend([info])
        (folder / "projector_config.pbtxt").write_text(text_format.MessageToString(self._projector))

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Step = None,
        num_thresholds: int = summary.MAX_THRESHOLDS,
        weights: Any = None,
        walltime: Time = None,
    ) -> None:
        """Log a curve of precision and recall, of labels, 0 or 1, and predictions from 0 to 1."""
        content = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(content, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Step = None,
        num_thresholds: int = summary.MAX_THRESHOLDS,
        weights: Any = None,
        walltime: Time = None,
    ) -> None:
        """Log a curve of precision and recall from counts at each threshold."""
        content = summary.pr_curve_raw(
            tag,
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
            num_thresholds,
        )
        self._add(content, global_step, walltime)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Group scalars into charts.

        Args:
            layout: Charts by category and title, each ``["Multiline" or "Margin", tags]``.
        """
        self._add(summary.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show several scalars in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Show a scalar between a lower and an upper one in a chart.

        Args:
            tags: The tags of the value, the lower and the upper scalar.
            category: The category of the chart.
            title: The title of the chart.

        Raises:
            AssertionError: `tags` does not have 3 elements.
        """
        if len(tags) != 3:
            raise AssertionError(f"Expected 3 tags, got {len(tags)}.")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Step = None,
        walltime: Time = None,
    ) -> None:
        """Log a 3D mesh: vertices, colors and triangles, each (batch, count, 3)."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Step = None,
    ) -> None:
        """Log hyperparameters and metrics, to a new log in a subfolder.

        Args:
            hparam_dict: Numbers, strings, bools and tensors by name.
            metric_dict: Numbers by name.
            hparam_domain_discrete: The possible values of hyperparameters, by name.
            run_name: The name of the subfolder. Default: the time.

        Raises:
            TypeError: An argument is not a dict, or a domain has values of another type.
            ValueError: A hyperparameter is of another type.
        """
        if type(hparam_dict) is not dict or type(metric_dict) is not dict:
            raise TypeError("hparam_dict and metric_dict should be dictionary.")
        contents = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(folder) as writer:
            for content in contents:
                writer._add(content, global_step)
            for name, value in metric_dict.items():
                writer.add_scalar(name, value, global_step)

    def flush(self) -> None:
        """Write pending events."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Flush and close the files. Later additions go to new files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
