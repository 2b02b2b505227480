# For gdb: steps through the marked calls of stepped_by_gdb.c, instruction by instruction, and walks the stack at each.
import gdb

# Of one call, which then goes on without steps.
STEPS_MAX = 2500
STEPS_MIN = 5
LOST_MAX = 8


def leads_to_main(frame):
    while frame is not None:
        if frame.name() == "main":
            return True
        frame = frame.older()
    return False


def step_through(call):
    steps, lost, is_interrupted = 0, [], False
    gdb.execute("finish", to_string=True)
    while gdb.newest_frame().name() != "ends" and steps < STEPS_MAX:
        gdb.execute("stepi", to_string=True)
        frame = gdb.newest_frame()
        is_interrupted |= frame.name() == "on_alarm"
        if not leads_to_main(frame):
            lost.append(gdb.execute("x/i $pc", to_string=True).strip())
        steps += 1
    found = [f"{len(lost)} lost"]
    found += ["all stepped"] if STEPS_MIN < steps < STEPS_MAX else []
    found += ["interrupted"] if is_interrupted else []
    print(f"steps of {call}: {', '.join(found)}", *lost[:LOST_MAX], sep="\nsteps: ")
    # What the program prints next comes behind that.
    gdb.flush()


for setting in ["pagination off", "breakpoint pending on", "print frame-arguments none", "print entry-values no"]:
    gdb.execute(f"set {setting}")
gdb.execute("handle SIGALRM nostop noprint pass", to_string=True)
for mark in ["begins", "ends", "on_alarm"]:
    gdb.execute(f"break {mark}", to_string=True)
gdb.execute("run", to_string=True)
while gdb.selected_inferior().pid != 0:
    if gdb.newest_frame().name() == "begins":
        step_through(gdb.newest_frame().read_var("call").string())
    gdb.execute("continue", to_string=True)
