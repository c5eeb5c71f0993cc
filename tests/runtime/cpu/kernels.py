"""Small kernels in LLVM IR, for the tests of the pool, the linker and the cache."""

ADD_INDEX = """
define i32 @{name}(ptr %data, ptr %ints, i64 %begin, i64 %end) {{
entry:
  %out = load ptr, ptr %data
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %loop, label %done
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
  %place = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %place
  %new = add i64 %old, %i
  store i64 %new, ptr %place
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
"""

# Constants, a table of their addresses, and calls into the C library.
USES_LIBRARY = """
@values = private constant [4 x double] [double 1.5, double 2.75, double 3.0, double 4.]
@table = private constant [2 x ptr] [ptr @values, ptr @sin]
declare double @fmod(double, double)
declare double @sin(double)
define i32 @{name}(ptr %data, ptr %ints, i64 %begin, i64 %end) {{
  %out = load ptr, ptr %data
  %which = and i64 %begin, 3
  %slot = getelementptr [2 x ptr], ptr @table, i64 0, i64 %end
  %start = load ptr, ptr @table
  %place = getelementptr double, ptr %start, i64 %which
  %value = load double, ptr %place
  %rest = call double @fmod(double %value, double 1.0)
  %function = load ptr, ptr %slot
  %sine = call double %function(double %rest)
  store double %sine, ptr %out
  ret i32 0
}}
"""


def object_file(text, triple=None):
    """The object file of a module of LLVM IR, for this host or another machine."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_process_triple())
    machine = target.create_target_machine(opt=1, reloc="pic", codemodel="small")
    module = llvm.parse_assembly(text)
    module.triple = triple or llvm.get_process_triple()
    return machine.emit_object(module)
