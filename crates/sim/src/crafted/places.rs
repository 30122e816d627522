//! Where the numbers are.

/// A number: where it begins, and of how many bytes it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// As the page of the format calls it.
    pub name: &'static str,
    /// Its first byte.
    pub offset: usize,
    /// At most eight.
    pub bytes: usize,
}

pub(super) const fn field(name: &'static str, offset: usize, bytes: usize) -> Place {
    Place {
        name,
        offset,
        bytes,
    }
}

impl Place {
    /// The number that is there.
    pub fn read(&self, from: &[u8]) -> u64 {
        let bytes = &from[self.offset..self.offset + self.bytes];
        bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    /// Puts the lower bytes of a number there.
    pub fn write(&self, to: &mut [u8], value: u64) {
        let bytes = &value.to_le_bytes()[..self.bytes];
        to[self.offset..self.offset + self.bytes].copy_from_slice(bytes);
    }

    /// The largest number that fits.
    pub fn most(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes)
    }

    /// Zero, one, the largest, and what is beside the number that is there.
    pub fn extremes(&self, from: &[u8]) -> Vec<u64> {
        let now = self.read(from);
        let mut all = vec![
            0,
            1,
            self.most(),
            self.most() / 2 + 1,
            now.saturating_sub(1),
            (now + 1).min(self.most()),
        ];
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// The numbers of a label, but for those that say which tables belong to it.
pub fn label_places() -> Vec<Place> {
    let mut places = vec![
        field("version", 8, 4),
        field("pool_id", 16, 8),
        field("secret", 32, 8),
        field("drive_id", 48, 8),
        field("sequence", 64, 8),
        field("incarnation", 72, 8),
        field("epoch", 80, 8),
        field("epoch's word", 88, 8),
        field("holder", 96, 8),
        field("drive_blocks", 112, 8),
        field("zone_base", 120, 4),
        field("zone_blocks", 124, 4),
        field("slot_blocks", 128, 4),
        field("body_bytes", 132, 4),
        field("level", 140, 1),
        field("width", 141, 1),
        field("drive_index", 142, 1),
        field("name", 144, 8),
        field("ancestor", 208, 8),
        field("claim", 2512, 8),
        field("closed", 2520, 8),
        field("content", 3560, 8),
        field("features", 3568, 8),
    ];
    for member in [0, 1, 31] {
        let at = 1232 + 40 * member;
        places.extend([
            field("member's id", at, 8),
            field("member's state", at + 16, 1),
            field("member's domain", at + 18, 2),
            field("member's blocks", at + 24, 8),
            field("member's joined", at + 32, 8),
        ]);
    }
    places
}

/// The numbers of a stripe's header and of its first records.
pub fn header_places() -> Vec<Place> {
    let mut places = vec![
        field("rows", 6, 2),
        field("records", 8, 2),
        field("segment", 16, 4),
        field("generation", 20, 4),
        field("row", 24, 4),
        field("shard", 28, 4),
        field("incarnation", 32, 8),
        field("sequence", 40, 8),
        field("durable_through", 48, 8),
        field("newest", 72, 8),
    ];
    for record in 0..3 {
        let at = 80 + 16 * record;
        places.extend([
            field("record's block", at, 7),
            field("record's kind", at + 7, 1),
            field("record's layer", at + 8, 4),
            field("record's value", at + 12, 4),
        ]);
    }
    places
}

/// The numbers of a node of a map and of its first records.
pub fn node_places() -> Vec<Place> {
    let mut places = vec![
        field("level", 4, 1),
        field("count", 6, 2),
        field("layer", 8, 4),
        field("first", 16, 8),
    ];
    for record in 0..3 {
        let at = 32 + 16 * record;
        places.extend([
            field("record's block", at, 5),
            field("record's location", at + 5, 7),
            field("record's checksum", at + 12, 4),
        ]);
    }
    places
}

/// Walks through tables of version 3 and notes every number.
struct Walk<'a> {
    tables: &'a [u8],
    at: usize,
    places: Vec<Place>,
}

impl Walk<'_> {
    fn number(&mut self, name: &'static str, bytes: usize) -> u64 {
        let place = field(name, self.at, bytes);
        if self.at + bytes > self.tables.len() {
            self.at = self.tables.len();
            return 0;
        }
        self.at += bytes;
        self.places.push(place);
        place.read(self.tables)
    }

    fn text(&mut self, name: &'static str) {
        let bytes = self.number(name, 2) as usize;
        self.at = (self.at + bytes).min(self.tables.len());
    }

    fn numbers(&mut self, all: &[(&'static str, usize)]) {
        for (name, bytes) in all {
            self.number(name, *bytes);
        }
    }

    fn segment(&mut self) {
        self.numbers(&[
            ("segment number", 4),
            ("segment generation", 4),
            ("segment kind", 1),
            ("segment state", 1),
            ("segment rows", 4),
            ("segment live_blocks", 4),
            ("segment sequence", 8),
        ]);
        for _ in 0..self.number("segment columns", 1) {
            self.numbers(&[("column drive", 1), ("column zone", 4)]);
        }
    }

    fn layer(&mut self) {
        self.numbers(&[("layer id", 4), ("layer parent", 4), ("layer mapped", 8)]);
        if self.number("layer levels", 1) != 0 {
            self.numbers(&[("layer location", 7), ("layer checksum", 4)]);
        }
    }

    fn volume(&mut self) {
        self.number("volume id", 4);
        self.text("volume name");
        self.numbers(&[
            ("volume blocks", 8),
            ("volume layer", 4),
            ("volume origin", 4),
        ]);
        self.text("volume attributes");
        self.number("volume flags", 1);
    }

    fn snapshot(&mut self) {
        self.number("snapshot id", 4);
        self.text("snapshot name");
        self.numbers(&[
            ("snapshot blocks", 8),
            ("snapshot layer", 4),
            ("snapshot volume", 4),
        ]);
    }

    fn decided(&mut self) {
        self.numbers(&[("decided incarnation", 8), ("decided slice_blocks", 4)]);
        for _ in 0..self.number("decided shards", 4) {
            self.numbers(&[("decided since", 8), ("decided through", 8)]);
            for _ in 0..self.number("decided torn", 4) {
                self.number("torn sequence", 8);
            }
        }
    }
}

/// Every number of some tables of version 3.
pub fn table_places(tables: &[u8]) -> Vec<Place> {
    let mut walk = Walk {
        tables,
        at: 0,
        places: Vec::new(),
    };
    walk.number("slice_blocks", 4);
    for _ in 0..walk.number("shards", 4) {
        walk.number("shard sequence", 8);
    }
    walk.numbers(&[
        ("next_generation", 4),
        ("map_nodes", 8),
        ("folding", 4),
        ("folding_child", 4),
    ]);
    for _ in 0..walk.number("segments", 4) {
        walk.segment();
    }
    walk.number("next_id", 4);
    for _ in 0..walk.number("layers", 4) {
        walk.layer();
    }
    for _ in 0..walk.number("redirects", 4) {
        walk.numbers(&[
            ("redirect layer", 4),
            ("redirect heir", 4),
            ("redirect generation", 4),
        ]);
    }
    for _ in 0..walk.number("volumes", 4) {
        walk.volume();
    }
    for _ in 0..walk.number("snapshots", 4) {
        walk.snapshot();
    }
    for _ in 0..walk.number("times", 4) {
        walk.numbers(&[("time snapshot", 4), ("time taken", 8)]);
    }
    walk.numbers(&[("further members", 4), ("domains", 4), ("keys", 4)]);
    if walk.at < tables.len() {
        walk.decided();
    }
    walk.places
}
