//! Levels of memory in a curve of latencies.

/// A step of the staircase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The largest size that is still of this level; none of the last one, which nothing ends.
    pub capacity: Option<f64>,
    /// Its latency.
    pub latency: f64,
}

/// Latencies that differ by less are of one level.
const SAME: f64 = 1.25;
/// A level is so many times as slow as the one before at least.
const STEP: f64 = 1.5;
/// The largest size of a level is so many times as large as its smallest at least; else it is the slope between two others.
const EXTENT: f64 = 1.9;

/// The levels in `curve`: latencies by sizes that grow.
///
/// A latency counts as no more than any of a larger size, since what disturbs a measurement makes it longer. A level begins
/// where latencies stay alike while the size doubles, and ends at the last size that is like them.
#[must_use]
pub fn levels(curve: &[(f64, f64)]) -> Vec<Level> {
    let mut calm: Vec<(f64, f64)> = curve.to_vec();
    for place in (1..calm.len()).rev() {
        calm[place - 1].1 = calm[place - 1].1.min(calm[place].1);
    }
    let mut found: Vec<Level> = Vec::new();
    let mut rest = &calm[..];
    while let Some(&(size, first)) = rest.first() {
        let alike = rest.partition_point(|(_, latency)| *latency <= first * SAME);
        let (last_size, _) = rest[alike - 1];
        if last_size < size * EXTENT && alike < rest.len() {
            rest = &rest[1..];
            continue;
        }
        let latency = rest[alike / 2].1;
        let capacity = (alike < rest.len()).then_some(last_size);
        match found.last_mut() {
            // What was found before is the end of a slope, so gentle that it looks level.
            Some(before) if latency < before.latency * STEP => *before = Level { capacity, latency },
            _ => found.push(Level { capacity, latency }),
        }
        rest = &rest[alike..];
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes() -> impl Iterator<Item = f64> {
        (0..68).map(|step| 4096.0 * 2f64.powf(f64::from(step) / 4.0))
    }

    /// Latencies where the share of a size that a cache cannot hold comes from the next level.
    fn staircase(caches: &[(f64, f64)], memory: f64) -> Vec<(f64, f64)> {
        let latency = |size: f64| {
            let (mut held, mut sum) = (0.0, 0.0);
            for (capacity, latency) in caches {
                let now = capacity.min(size);
                sum += (now - held) * latency;
                held = now;
            }
            (sum + (size - held) * memory) / size
        };
        sizes().map(|size| (size, latency(size))).collect()
    }

    fn assert_levels(found: &[Level], expected: &[(f64, f64)]) {
        assert_eq!(found.len(), expected.len() + 1, "{found:?}");
        assert_eq!(found.last().unwrap().capacity, None);
        for (level, (capacity, latency)) in found.iter().zip(expected) {
            let ratio = level.capacity.unwrap() / capacity;
            assert!((0.8..1.5).contains(&ratio), "{capacity}: {found:?}");
            assert!((0.8..1.3).contains(&(level.latency / latency)), "{latency}: {found:?}");
        }
    }

    const CACHES: [(f64, f64); 3] = [(49_152.0, 1.6), (2_097_152.0, 4.5), (33_554_432.0, 30.0)];

    #[test]
    fn steps_are_found_whether_sharp_or_smeared() {
        assert_levels(&levels(&staircase(&CACHES, 120.0)), &CACHES);
        let sharp = sizes().map(|size| {
            let cache = CACHES.iter().find(|(capacity, _)| size <= *capacity);
            (size, cache.map_or(120.0, |(_, latency)| *latency))
        });
        assert_levels(&levels(&sharp.collect::<Vec<_>>()), &CACHES);
    }

    #[test]
    fn what_disturbs_single_measurements_changes_nothing() {
        let mut curve = staircase(&CACHES, 120.0);
        for (place, (_, latency)) in curve.iter_mut().enumerate() {
            *latency *= match place % 7 {
                3 => 2.5,
                5 => 1.08,
                _ => 1.0,
            };
        }
        assert_levels(&levels(&curve), &CACHES);
    }

    #[test]
    fn a_flat_curve_is_one_level_and_none_is_none() {
        let flat: Vec<_> = sizes().map(|size| (size, 5.0)).collect();
        assert_eq!(levels(&flat), [Level { capacity: None, latency: 5.0 }]);
        assert_eq!(levels(&[]), []);
    }

    /// A guest on a Xeon of the fourth generation: caches of 48 KiB and 2 MiB, and of 105 MiB in all that it shares with others.
    /// Sizes in KiB.
    const RECORDED: [(u32, f64); 62] = [
        (4, 1.7),
        (8, 1.7),
        (12, 1.8),
        (16, 1.8),
        (20, 1.9),
        (24, 1.9),
        (32, 1.9),
        (36, 1.9),
        (44, 1.9),
        (52, 6.0),
        (64, 6.0),
        (76, 6.1),
        (88, 6.0),
        (104, 6.0),
        (128, 6.0),
        (152, 6.0),
        (180, 5.8),
        (212, 5.8),
        (256, 5.8),
        (304, 5.8),
        (360, 5.8),
        (428, 5.8),
        (512, 5.8),
        (608, 5.8),
        (724, 5.8),
        (860, 5.8),
        (1024, 5.8),
        (1216, 5.8),
        (1448, 5.8),
        (1720, 5.9),
        (2048, 6.7),
        (2432, 28.3),
        (2896, 41.9),
        (3444, 45.2),
        (4096, 48.8),
        (4868, 57.3),
        (5792, 134.5),
        (6888, 133.0),
        (8192, 139.1),
        (9740, 139.9),
        (11584, 134.0),
        (13776, 132.8),
        (16384, 133.5),
        (19480, 147.7),
        (23168, 130.4),
        (27552, 132.8),
        (32768, 131.6),
        (38964, 136.3),
        (46340, 142.8),
        (55108, 131.3),
        (65536, 138.7),
        (77932, 137.1),
        (92680, 139.4),
        (110216, 128.9),
        (131072, 145.2),
        (155868, 136.7),
        (185360, 138.9),
        (220432, 141.9),
        (262144, 142.0),
        (311740, 147.9),
        (370724, 148.6),
        (430080, 143.7),
    ];

    #[test]
    fn a_recorded_curve_has_the_caches_that_the_guest_has_alone_and_no_level_where_it_only_rises() {
        let curve: Vec<(f64, f64)> =
            RECORDED.iter().map(|(size, latency)| (f64::from(*size), *latency)).collect();
        let found = levels(&curve);
        assert_eq!(
            found.iter().map(|level| level.capacity).collect::<Vec<_>>(),
            [Some(44.0), Some(2048.0), None]
        );
        assert!((120.0..150.0).contains(&found[2].latency), "{found:?}");
    }
}
