"""Turns LLVM IR text into machine code; the only module that imports llvmlite."""

import functools
import threading
from contextlib import contextmanager
from dataclasses import dataclass

from rushlight.codegen.emit.llvm import AS_WRITTEN, REPEATS
from rushlight.codegen.target import NVIDIA, Target, current, running
from rushlight.core.roles import host


@dataclass(frozen=True)
class Compiled:
    """What LLVM made of one module."""

    object: bytes
    optimized: str = ""
    assembly: str = ""


@functools.cache
def _llvm():
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


@functools.cache
def _machine(target: Target, runs_here=False):
    """LLVM's machine for a target, with full-width vectors.

    Args:
        runs_here: whether this machine's processor is what its code is tuned for.
    """
    llvm = _llvm()
    cpu, features = target.cpu, ""
    if cpu is None:
        cpu = llvm.get_host_cpu_name()
        features = llvm.get_host_cpu_features().flatten()
        found = llvm.Target.from_default_triple()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        found = llvm.Target.from_triple(target.triple)
    if found.name.startswith("x86"):
        features += ",-prefer-256-bit"
        if (llvm.get_host_cpu_name() if runs_here else cpu).startswith("znver"):
            # a gather is dozens of operations there, one load an element elsewhere
            features += ",+prefer-no-gather"
    return found.create_target_machine(
        cpu=cpu,
        features=features.lstrip(","),
        opt=2,
        jit=True,
        reloc="pic",
        codemodel="small",
    )


def _optimized_module(text, machine):
    llvm = _llvm()
    module = llvm.parse_assembly(text)
    module.verify()
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = True
    options.slp_vectorization = False
    builder = llvm.create_pass_builder(machine, options)
    if text.startswith(AS_WRITTEN):
        manager = _cleanup(text.startswith(REPEATS))
    else:
        manager = builder.getModulePassManager()
    manager.run(module, builder)
    return module


def _cleanup(repeats):
    """The passes for code whose loops are final: a twentieth of the time of all.

    What they do not find is not written: loops ask at their end, and what values share
    has a name. Where loops carry values that are equal, it takes one pass more.
    """
    manager = _llvm().create_new_module_pass_manager()
    manager.add_always_inliner_pass()
    manager.add_global_dead_code_eliminate_pass()
    manager.add_sroa_pass()
    manager.add_simplify_cfg_pass()
    if repeats:
        manager.add_new_gvn_pass()
        manager.add_simplify_cfg_pass()
    return manager


def compile_ir(text: str, *, inspect: bool = False) -> Compiled:
    """Optimises and compiles a module of LLVM IR for the current target.

    With ``inspect`` the optimised IR and the assembly text come along.
    """
    machine = _machine(current(), running())
    with _strength_reduction(not text.startswith(AS_WRITTEN)):
        module = _optimized_module(text, machine)
        binary = machine.emit_object(module)
        if not inspect:
            return Compiled(binary)
        return Compiled(binary, str(module), machine.emit_assembly(module))


_reducing = threading.Lock()


@contextmanager
def _strength_reduction(wanted):
    """LLVM's loop strength reduction, or none: an option of the whole process.

    Loops that are final count as they are to. Going over them took a quarter of the time
    of a product's machine code, and gave the same loops.
    """
    with _reducing:
        _llvm().set_option("", f"-disable-lsr={'false' if wanted else 'true'}")
        yield


_engines: list = []


def load_in_process(binary: bytes, name: str) -> int:
    """The address of a function of an object file, loaded by LLVM's own loader."""
    llvm = _llvm()
    llvm.add_symbol("rushlight_scratch", host.scratch.scratch_address())
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine_for_loading())
    engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(binary))
    engine.finalize_object()
    _engines.append(engine)
    return engine.get_function_address(name)


def _machine_for_loading():
    llvm = _llvm()
    return llvm.Target.from_default_triple().create_target_machine(jit=True)


def compile_ptx(text: str, target: Target = NVIDIA) -> str:
    """The PTX of a module of LLVM IR, for one generation of NVIDIA devices."""
    llvm = _llvm()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=f"+ptx{target.ptx}", opt=3
    )
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    # A pointer for each load and each loop around it takes registers that more threads
    # would run with; ptxas counts on where that pays.
    with _strength_reduction(False):
        builder.getModulePassManager().run(module, builder)
        return machine.emit_assembly(module)
