//! The native part of `forebay.share`: the memory of a host, in which Python makes arrays, and the calls of a host.
//!
//! A call that can wait releases the interpreter's lock. Python code that touches shared memory may fault with that
//! lock held; the progress thread serves the fault without it. A call that waits ends where a signal handler of Python raises
//! an exception.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use forebay_millipage::{
    Access, Comparison, Condition, Error, NumberType, Operation, Options, Placement, Process, ReadWrite,
    Reduction, Semaphore, ending_at, interruptible,
};
use pyo3::{create_exception, exceptions::PyRuntimeError, prelude::*, types::PyBytes};

create_exception!(
    forebay.share,
    ShareError,
    PyRuntimeError,
    "Something could not be shared; its text tells why."
);

fn failure(error: Error) -> PyErr {
    ShareError::new_err(error.to_string())
}

/// A host.
#[pyclass(frozen)]
struct Host {
    process: Process,
    #[pyo3(get)]
    rank: u16,
    #[pyo3(get)]
    hosts: u16,
}

/// Some hosts.
#[pyclass(frozen)]
struct Team(forebay_millipage::Team);

/// Where chunks of rows are, in bytes: neighbours at one distance within a group, the groups at another.
#[pyclass(frozen, get_all)]
struct Place {
    address: usize,
    /// Chunks of a group.
    group: usize,
    chunk_step: isize,
    group_step: isize,
}

#[pymethods]
impl Host {
    #[new]
    fn join(py: Python<'_>, size: Option<usize>, views: Option<usize>) -> PyResult<Self> {
        let default = Options::default();
        let options = Options {
            bytes: size.unwrap_or(default.bytes),
            views: views.unwrap_or(default.views),
            ..default
        };
        py.detach(|| {
            let process = Process::join(options)?;
            let (rank, hosts) = process.host().map(|host| (host.rank(), host.hosts()))?;
            Ok(Self { process, rank, hosts })
        })
        .map_err(failure)
    }

    /// Rows of so many bytes each, for a call of the program that all hosts make alike.
    #[allow(clippy::too_many_arguments, reason = "they are those of the call")]
    fn rows(
        &self,
        py: Python<'_>,
        call: &str,
        rows: usize,
        bytes: usize,
        chunk: usize,
        placement: &str,
        rank: u16,
    ) -> PyResult<Place> {
        let placement = match placement {
            "blocks" => Placement::Blocks,
            "cyclic" => Placement::Cyclic,
            "copies" => Placement::Copies,
            _ => Placement::On(rank),
        };
        self.call(py, |host| {
            let allocated = host.rows_called::<u8>(call, rows, bytes, chunk, placement)?;
            Ok(place(rows.div_ceil(chunk), |index| allocated.row(index * chunk).as_ptr() as usize))
        })
    }

    fn free_together(&self, py: Python<'_>, address: usize) -> PyResult<()> {
        self.call(py, |host| host.free_together(address))
    }

    /// Bytes that this host allocates alone: their address.
    fn malloc(&self, py: Python<'_>, bytes: usize) -> PyResult<usize> {
        self.call(py, |host| Ok(host.malloc::<u8>(bytes)?.as_ptr() as usize))
    }

    fn free(&self, py: Python<'_>, address: usize) -> PyResult<()> {
        self.call(py, |host| host.free(address))
    }

    fn malloc_left(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |host| Ok(host.malloc_left()))
    }

    /// Whether all these bytes are of one allocation.
    fn has_bytes(&self, py: Python<'_>, address: usize, bytes: usize) -> PyResult<()> {
        self.call(py, |host| host.bytes_at(address, bytes).map(drop))
    }

    fn block(&self, py: Python<'_>, count: usize, rank: u16) -> PyResult<(usize, usize)> {
        let block = self.call(py, |host| Ok(host.block_of(rank, count)))?;
        Ok((block.start, block.end))
    }

    fn barrier(&self, py: Python<'_>) -> PyResult<()> {
        self.call(py, forebay_millipage::Host::barrier)
    }

    /// Whether it is taken in so many seconds.
    fn lock(&self, py: Python<'_>, lock: u32, recursive: bool, seconds: Option<f64>) -> PyResult<bool> {
        self.call_for(py, seconds, |host| if recursive { host.lock_recursive(lock) } else { host.lock(lock) })
    }

    fn try_lock(&self, py: Python<'_>, lock: u32) -> PyResult<bool> {
        self.call(py, |host| host.try_lock(lock))
    }

    fn unlock(&self, py: Python<'_>, lock: u32) -> PyResult<()> {
        self.call(py, |host| host.unlock(lock))
    }

    /// An atomic operation with the word of so many bytes at an address: what it was.
    fn operate(
        &self,
        py: Python<'_>,
        address: usize,
        bytes: usize,
        operation: &str,
        value: u128,
        expected: u128,
    ) -> PyResult<u128> {
        let operation = match operation {
            "store" => Operation::Store,
            "compare" => Operation::CompareExchange { expected },
            "add" => Operation::Add,
            "and" => Operation::And,
            "or" => Operation::Or,
            "xor" => Operation::Xor,
            _ => Operation::Load,
        };
        self.call(py, |host| host.operate(address, bytes, operation, value))
    }

    #[allow(clippy::too_many_arguments, reason = "they are those of the call")]
    fn wait_until(
        &self,
        py: Python<'_>,
        address: usize,
        bytes: usize,
        signed: bool,
        comparison: &str,
        number: i128,
    ) -> PyResult<u128> {
        let comparison = match comparison {
            "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => Comparison::Equal,
        };
        self.call(py, |host| host.wait_until(address, bytes, signed, comparison, number))
    }

    fn ring(&self, py: Python<'_>, address: usize) -> PyResult<()> {
        self.call(py, |host| host.ring(address))
    }

    /// Whether a unit is taken in so many seconds.
    fn acquire(&self, py: Python<'_>, semaphore: usize, seconds: Option<f64>) -> PyResult<bool> {
        self.call_for(py, seconds, |host| {
            let semaphore = Semaphore::at(host, semaphore)?;
            match seconds {
                Some(0.0) if semaphore.try_acquire() => Ok(()),
                Some(0.0) => Err(Error::Interrupted),
                _ => semaphore.acquire(),
            }
        })
    }

    fn release(&self, py: Python<'_>, semaphore: usize, units: u32) -> PyResult<()> {
        self.call(py, |host| Semaphore::at(host, semaphore)?.release(units))
    }

    /// Whether it is notified in so many seconds.
    fn wait(&self, py: Python<'_>, condition: usize, lock: u32, seconds: Option<f64>) -> PyResult<bool> {
        self.call_for(py, seconds, |host| Condition::at(host, condition)?.wait(host, lock))
    }

    fn notify(&self, py: Python<'_>, condition: usize, threads: u32) -> PyResult<()> {
        self.call(py, |host| Condition::at(host, condition).map(|condition| condition.notify(threads)))
    }

    fn read_or_write(&self, py: Python<'_>, lock: usize, writes: bool, waits: bool) -> PyResult<bool> {
        self.call(py, |host| {
            let lock = ReadWrite::at(host, lock)?;
            match (writes, waits) {
                (false, true) => lock.read().map(|()| true),
                (true, true) => lock.write().map(|()| true),
                (false, false) => Ok(lock.try_read()),
                (true, false) => Ok(lock.try_write()),
            }
        })
    }

    fn unlock_read_or_write(&self, py: Python<'_>, lock: usize) -> PyResult<()> {
        self.call(py, |host| ReadWrite::at(host, lock)?.unlock())
    }

    fn team(&self, py: Python<'_>, members: Vec<u16>) -> PyResult<Team> {
        Ok(Team(self.call(py, |host| host.team(&members))?))
    }

    /// Numbers of a type by a team of some hosts, or of all.
    #[allow(clippy::too_many_arguments, reason = "they are those of the call")]
    fn reduce<'p>(
        &self,
        py: Python<'p>,
        team: Option<&Team>,
        what: &str,
        values: &[u8],
        number: &str,
        reduction: &str,
        root: Option<usize>,
    ) -> PyResult<Bound<'p, PyBytes>> {
        let mut values = values.to_vec();
        let (number, reduction) = (number_type(number), reduction_of(reduction));
        self.with_team(py, team, |team| team.reduce_bytes(what, &mut values, number, reduction, root))?;
        Ok(PyBytes::new(py, &values))
    }

    fn broadcast<'p>(
        &self,
        py: Python<'p>,
        team: Option<&Team>,
        what: &str,
        values: &[u8],
        root: usize,
    ) -> PyResult<Bound<'p, PyBytes>> {
        let mut values = values.to_vec();
        self.with_team(py, team, |team| team.broadcast_bytes(what, &mut values, root))?;
        Ok(PyBytes::new(py, &values))
    }

    fn all_gather<'p>(
        &self,
        py: Python<'p>,
        team: Option<&Team>,
        what: &str,
        mine: &[u8],
    ) -> PyResult<Bound<'p, PyBytes>> {
        let mine = mine.to_vec();
        let gathered = self.with_team(py, team, |team| {
            let mut all = vec![0; mine.len() * team.members().len()];
            team.all_gather_bytes(what, &mine, &mut all).map(|()| all)
        })?;
        Ok(PyBytes::new(py, &gathered))
    }

    fn team_barrier(&self, py: Python<'_>, team: Option<&Team>) -> PyResult<()> {
        self.with_team(py, team, forebay_millipage::Team::barrier)
    }

    /// Where the memory is: address, size, what other processes open it by if hosts have one memory, and what hosts know the job by.
    fn memory(&self, py: Python<'_>) -> PyResult<(usize, usize, Option<String>, u64)> {
        self.call(py, |host| {
            let area = host.area();
            Ok((area.start, area.len(), host.memory_name()?, host.job()))
        })
    }

    fn left(&self, py: Python<'_>) -> PyResult<usize> {
        self.call(py, |host| Ok(host.left()))
    }

    fn prefetch(&self, py: Python<'_>, pieces: Vec<(usize, usize)>, write: bool) -> PyResult<()> {
        self.call(py, |host| host.prefetch_pieces(&pieces, access(write)))
    }

    fn push(&self, py: Python<'_>, pieces: Vec<(usize, usize)>) -> PyResult<()> {
        self.call(py, |host| host.push_pieces(&pieces))
    }

    fn touch(&self, py: Python<'_>, pieces: Vec<(usize, usize)>, write: bool) -> PyResult<()> {
        self.call(py, |host| host.touch_pieces(&pieces, access(write)))
    }

    fn stats(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, u64)>> {
        self.call(py, |host| Ok(host.take_counts().named().to_vec()))
    }

    /// Whether it has not left, and the process is the one that joined.
    fn is_host(&self) -> bool {
        self.process.host().is_ok()
    }

    /// It goes without the others, whose waits end.
    fn fail(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.process.fail()).map_err(failure)
    }

    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.process.leave()).map_err(failure)
    }
}

impl Host {
    /// Calls the host, without the interpreter's lock. A signal handler of Python can end it.
    fn call<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&forebay_millipage::Host) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.called(py, act)?.map_err(failure)
    }

    /// The same for so many seconds at most: whether it ended well by then.
    fn call_for(
        &self,
        py: Python<'_>,
        seconds: Option<f64>,
        act: impl FnOnce(&forebay_millipage::Host) -> Result<(), Error> + Send,
    ) -> PyResult<bool> {
        // What is longer than a time can be is for ever.
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok());
        let time = time.and_then(|time| Instant::now().checked_add(time));
        match self.called(py, |host| ending_at(time, || act(host)))? {
            Err(Error::Interrupted) if time.is_some() => Ok(false),
            ended => ended.map(|()| true).map_err(failure),
        }
    }

    /// What a call ended with, unless a signal handler has raised an exception.
    fn called<T: Send>(
        &self,
        py: Python<'_>,
        act: impl FnOnce(&forebay_millipage::Host) -> Result<T, Error> + Send,
    ) -> PyResult<Result<T, Error>> {
        let called = py.detach(|| interruptible(is_raised, || act(&*self.process.host()?)));
        match called {
            Err(Error::Interrupted) => PyErr::take(py).map_or(Ok(called), Err),
            _ => Ok(called),
        }
    }
}

impl Host {
    fn with_team<T: Send>(
        &self,
        py: Python<'_>,
        team: Option<&Team>,
        act: impl FnOnce(&forebay_millipage::Team) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        self.call(py, |host| match team {
            Some(Team(team)) => act(team),
            None => act(host.everyone()?),
        })
    }
}

/// Bytes that the kernel could give to this process now, within the limits of its control groups.
#[pyfunction]
fn free_bytes() -> Option<u64> {
    forebay_millipage::free_bytes()
}

/// A NumPy type's kind and size.
fn number_type(name: &str) -> NumberType {
    match name {
        "i1" => NumberType::I8,
        "u1" => NumberType::U8,
        "i2" => NumberType::I16,
        "u2" => NumberType::U16,
        "i4" => NumberType::I32,
        "u4" => NumberType::U32,
        "i8" => NumberType::I64,
        "u8" => NumberType::U64,
        "f4" => NumberType::F32,
        _ => NumberType::F64,
    }
}

fn reduction_of(name: &str) -> Reduction {
    match name {
        "product" => Reduction::Product,
        "min" => Reduction::Min,
        "max" => Reduction::Max,
        "and" => Reduction::And,
        "or" => Reduction::Or,
        "xor" => Reduction::Xor,
        _ => Reduction::Sum,
    }
}

/// Whether a signal handler of Python raises an exception now, which is left for the call's end.
fn is_raised() -> bool {
    Python::attach(|py| py.check_signals().map_err(|error| error.restore(py)).is_err())
}

const fn access(write: bool) -> Access {
    if write { Access::Write } else { Access::Read }
}

/// Where so many chunks are. Those on one page lie a view and a chunk apart, and the next page has as many.
fn place(chunks: usize, address: impl Fn(usize) -> usize) -> Place {
    let step = |index: usize| address(index).wrapping_sub(address(index - 1)) as isize;
    let chunk_step = if chunks > 1 { step(1) } else { 0 };
    let group = (1..chunks).find(|index| step(*index) != chunk_step).unwrap_or(chunks);
    let group_step = if group < chunks { address(group).wrapping_sub(address(0)) as isize } else { 0 };
    Place { address: address(0), group, chunk_step, group_step }
}

/// The part of `forebay.share` that is not written in Python.
#[pymodule(name = "_share")]
mod share {
    #[pymodule_export]
    use super::{Host, Place, ShareError, Team, free_bytes};
}
