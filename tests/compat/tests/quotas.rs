//! A quota of processor time: what speculators take of it the program cannot have, so they take the smaller part.

use forebay_compat::case::compare;
use forebay_compat::guests::build;
use forebay_compat::run::Side;
use forebay_compat::{Case, Outcome, Scratch, root, skip, switch};

/// Runs the command in a control group within one that may use a fifth of a processor. Tells on standard error in how many periods
/// the command ran.
const IN_A_GROUP: &str = r#"
if [ -e /sys/fs/cgroup/cpu/cpu.shares ]; then
    all=/sys/fs/cgroup/cpu limit=cpu.cfs_quota_us quota=20000
else
    all=/sys/fs/cgroup limit=cpu.max quota='20000 100000'
fi
group=$all/forebay-compat-$$
ends() {
    echo 0 > $all/cgroup.procs
    for try in {1..500}; do rmdir $group/inner; rmdir $group && break; sleep 0.01; done
} 2> /dev/null
if ! { mkdir -p $group/inner && echo "$quota" > $group/$limit && echo 0 > $group/inner/cgroup.procs; } 2> /dev/null; then
    ends
    echo none >&2
    exit 9
fi
"$@"
status=$?
grep nr_periods $group/cpu.stat >&2
ends
exit $status
"#;
/// What a period gives to the group.
const PERIOD_S: f64 = 0.02;

/// Runs a side, and takes from its standard error in how many periods it ran; `None` where there can be no quota.
fn run(case: &Case, side: Side) -> Option<(Outcome, f64)> {
    let mut outcome = case.run(side);
    let told = String::from_utf8_lossy(&std::mem::take(&mut outcome.stderr)).trim().to_owned();
    if told == "none" {
        return None;
    }
    let periods = told.strip_prefix("nr_periods ").and_then(|count| count.parse().ok());
    Some((outcome, periods.unwrap_or_else(|| panic!("{told}"))))
}

/// The quota is of a group around the program's. It is judged after two periods, of which speculators may take a part.
#[test]
fn a_program_has_most_of_its_quota() {
    const NAME: &str = "a_program_has_most_of_its_quota";
    if !root() || switch("FOREBAY_COMPAT_PLAIN") {
        return skip(NAME, "only root may make the group, and both sides must differ");
    }
    let fill = |scratch: &Scratch| {
        scratch.noise("data", 8 << 20, 9);
    };
    let case = Case::new(NAME, [build("computes_between").into_os_string(), "data".into()]);
    let case = case.setup(fill).before(["bash", "-c", IN_A_GROUP, "bash"]);
    let Some((without, periods)) = run(&case, Side::Without) else {
        return skip(NAME, "no control group of processor time can be made");
    };
    let (with, _) = run(&case, Side::With).expect("the group of before");
    let found = compare(&without, &with);
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert_eq!(without.status, 0);
    let taken = with.figure("speculator_cpu");
    assert!(taken < periods * PERIOD_S / 4.0, "{periods} periods alone, {:?}", with.totals());
}
