//! Histories in a file, by intervals that are counted, not waited for.

use tempfile::TempDir;

use super::super::values::VALUES;
use super::*;

/// The first interval of a day, of an hour and of a quarter.
const START: u32 = 8640 * 20_000;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn row(volume: &str, value: f64) -> Row {
    Row {
        kind: HistoryKind::Volume,
        name: name(volume),
        values: [Some(value); VALUES],
    }
}

fn opened(directory: &TempDir) -> HistoryFile {
    HistoryFile::open(&directory.path().join("history")).unwrap()
}

/// The first figure of each interval, as a whole number.
fn read(file: &HistoryFile, volume: &str, tier: usize, first: u32, count: u32) -> Vec<Option<u32>> {
    let object = (HistoryKind::Volume, &name(volume));
    let found = file.history(object, tier, (first, count)).unwrap();
    found
        .iter()
        .map(|values| values[0].map(|value| value.round() as u32))
        .collect()
}

/// What was recorded is there after a restart, in all resolutions, and a stop leaves a gap.
#[test]
fn a_history_outlives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = opened(&directory);
    for step in 0..95 {
        file.write(START + step, &[row("v", f64::from(step / 6))])
            .unwrap();
    }
    drop(file);
    let mut file = opened(&directory);
    for step in 200..300 {
        file.write(START + step, &[row("v", 50.0)]).unwrap();
    }
    assert_eq!(
        read(&file, "v", 0, START + 93, 3),
        [Some(15), Some(15), None]
    );
    let minutes = read(&file, "v", 1, START / 6, 16);
    let expected: Vec<Option<u32>> = (0..16).map(Some).collect();
    assert_eq!(minutes, expected);
    assert_eq!(read(&file, "v", 1, START / 6 + 20, 1), [None]);
    // A quarter is the mean of its minutes: 0 to 14, then the one minute before the stop.
    assert_eq!(
        read(&file, "v", 2, START / 90, 3),
        [Some(7), Some(15), Some(50)]
    );
}

/// A month later the first tier has an hour of records, the last 30 days, and the file is as long
/// as before.
#[test]
fn old_figures_make_room_for_new_ones() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    let mut file = opened(&directory);
    // A record every five minutes is enough to go round all rings.
    let end = START + 8640 * 31;
    for interval in (START..end).step_by(30) {
        file.write(interval, &[row("v", 5.0)]).unwrap();
    }
    let length = path.metadata().unwrap().len();
    let bound = (PAGE_BYTES + GROUP_BYTES) as u64;
    assert!(length <= bound, "{length} of {bound}");
    assert!(FILE_BYTES_MAX < 1_300_000_000 && bound < 20_000_000);
    let month = read(&file, "v", 2, end / 90 - 2880, 2880);
    assert_eq!(
        month.iter().flatten().count(),
        2879,
        "the last is under way"
    );
    assert_eq!(
        read(&file, "v", 2, START / 90, 95).iter().flatten().count(),
        0
    );
    assert_eq!(
        read(&file, "v", 0, end - 360, 360).iter().flatten().count(),
        12
    );
    for interval in (end..end + 8640).step_by(30) {
        file.write(interval, &[row("v", 5.0)]).unwrap();
    }
    assert_eq!(path.metadata().unwrap().len(), length);
}

/// A volume that is made anew under a name, or in another's place, has nothing of the former one.
#[test]
fn a_new_object_has_no_former_history() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = opened(&directory);
    file.write(START, &[row("v", 1.0)]).unwrap();
    file.write(START + 1, &[]).unwrap();
    assert_eq!(
        read(&file, "v", 0, START, 2),
        [Some(1), None],
        "kept when it is gone"
    );
    file.write(START + 2, &[row("v", 2.0)]).unwrap();
    assert_eq!(read(&file, "v", 0, START, 3), [None, None, Some(2)]);
    drop(file);
    assert_eq!(
        read(&opened(&directory), "v", 0, START, 3),
        [None, None, Some(2)]
    );
}

/// More objects than there are places for are counted, and those that are gone make room.
#[test]
fn places_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let mut file = opened(&directory);
    let most = GROUPS_MAX * GROUP_OBJECTS;
    let rows: Vec<Row> = (0..=most)
        .map(|number| row(&format!("v{number}"), 3.0))
        .collect();
    assert_eq!(file.write(START, &rows).unwrap(), 1);
    assert_eq!(file.objects(), most as u64);
    assert!(file.file.metadata().unwrap().len() <= FILE_BYTES_MAX);
    assert_eq!(file.write(START + 1, &rows[1..]).unwrap(), 0);
    assert_eq!(
        read(&file, &format!("v{most}"), 0, START, 2),
        [None, Some(3)]
    );
    assert_eq!(read(&file, "v0", 0, START, 1), [None]);
}

/// A file of anything else is begun anew; one that was torn is read as far as it makes sense.
#[test]
fn any_file_can_be_opened() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("history");
    for length in [0, 5, 12, 4096, PAGE_BYTES + DIRECTORY_BYTES, 100_000] {
        for byte in [0, 1, 0xff] {
            let mut bytes = vec![byte; length];
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(opened(&directory).objects(), 0);
            if let Some(start) = bytes.get_mut(..MAGIC.len()) {
                start.copy_from_slice(&MAGIC);
                std::fs::write(&path, &bytes).unwrap();
            }
            let mut file = opened(&directory);
            assert_eq!(file.objects(), 0);
            file.write(START, &[row("v", 1.0)]).unwrap();
            assert_eq!(read(&file, "v", 0, START, 1), [Some(1)]);
        }
    }
}
