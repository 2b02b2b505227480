//! Computes how heat spreads over a plate with a hot upper edge. Each host computes some of the rows.
use forebay_millipage::{Error, Options, Placement, join};

const SIZE: usize = 64;
const STEPS: usize = 1000;

fn main() -> Result<(), Error> {
    let host = join(Options::default())?;
    let mut now = host.rows::<f64>(SIZE, SIZE, Placement::Blocks)?;
    let mut next = host.rows::<f64>(SIZE, SIZE, Placement::Blocks)?;
    if host.rank() == 0 {
        [&now, &next].into_iter().for_each(|plate| plate.row(0).write(0, &[100.0; SIZE]));
    }
    for _ in 0..STEPS {
        host.barrier()?;
        for i in host.block(SIZE).filter(|i| (1..SIZE - 1).contains(i)) {
            let (above, row, below) = (now.row(i - 1), now.row(i), now.row(i + 1));
            for j in 1..SIZE - 1 {
                next.row(i).set(j, (above.get(j) + below.get(j) + row.get(j - 1) + row.get(j + 1)) / 4.0);
            }
        }
        (now, next) = (next, now);
    }
    host.barrier()?;
    if host.rank() == 0 {
        println!("{:.6} degrees in the middle", now.row(SIZE / 2).get(SIZE / 2));
    }
    host.leave()
}
