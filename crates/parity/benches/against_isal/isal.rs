//! ISA-L, if this machine has it: loaded at run time, so that nothing else ever needs it.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};

type Generate = unsafe extern "C" fn(c_int, c_int, *mut *mut c_void) -> c_int;
type Encode =
    unsafe extern "C" fn(c_int, c_int, c_int, *mut c_uchar, *mut *mut c_uchar, *mut *mut c_uchar);
type Tables = unsafe extern "C" fn(c_int, c_int, *mut c_uchar, *mut c_uchar);
type Matrix = unsafe extern "C" fn(*mut c_uchar, c_int, c_int);
type Invert = unsafe extern "C" fn(*mut c_uchar, *mut c_uchar, c_int) -> c_int;

/// The functions that the comparison needs (isa-l/raid.h, isa-l/erasure_code.h).
pub struct Isal {
    pq_gen: Generate,
    xor_gen: Generate,
    pq_check: Generate,
    ec_encode_data: Encode,
    ec_init_tables: Tables,
    gf_gen_rs_matrix: Matrix,
    gf_invert_matrix: Invert,
}

/// Coefficients in ISA-L's form, for some number of sources and outputs.
pub struct EncodeTables {
    bytes: Vec<u8>,
    sources: usize,
    outputs: usize,
}

/// Finds a function of a loaded library.
macro_rules! symbol {
    ($library:expr, $name:literal, $type:ty) => {{
        // SAFETY: the library is loaded, and its header declares the symbol with this type.
        unsafe {
            let address = libc::dlsym($library, concat!($name, "\0").as_ptr().cast::<c_char>());
            if address.is_null() {
                return None;
            }
            std::mem::transmute::<*mut c_void, $type>(address)
        }
    }};
}

impl Isal {
    /// Loads `libisal.so.2` (Debian: package libisal2); `None` if there is none.
    pub fn load() -> Option<Isal> {
        let name: &CStr = c"libisal.so.2";
        // SAFETY: loading runs the library's initialisers, which ISA-L has none of.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        Some(Isal {
            pq_gen: symbol!(library, "pq_gen", Generate),
            xor_gen: symbol!(library, "xor_gen", Generate),
            pq_check: symbol!(library, "pq_check", Generate),
            ec_encode_data: symbol!(library, "ec_encode_data", Encode),
            ec_init_tables: symbol!(library, "ec_init_tables", Tables),
            gf_gen_rs_matrix: symbol!(library, "gf_gen_rs_matrix", Matrix),
            gf_invert_matrix: symbol!(library, "gf_invert_matrix", Invert),
        })
    }

    /// P and Q of all but the last two columns into those.
    ///
    /// # Safety
    /// Here and below: every column is valid for `bytes` bytes, and nobody else uses it meanwhile.
    pub unsafe fn pq_gen(&self, columns: &[*mut u8], bytes: usize) {
        // SAFETY: the caller's promise.
        let failed = unsafe { (self.pq_gen)(int(columns.len()), int(bytes), array(columns)) };
        assert_eq!(failed, 0, "pq_gen refuses the columns");
    }

    /// P of all but the last column into that.
    pub unsafe fn xor_gen(&self, columns: &[*mut u8], bytes: usize) {
        // SAFETY: the caller's promise.
        let failed = unsafe { (self.xor_gen)(int(columns.len()), int(bytes), array(columns)) };
        assert_eq!(failed, 0, "xor_gen refuses the columns");
    }

    /// True when the last two columns are P and Q of the others.
    pub unsafe fn pq_check(&self, columns: &[*mut u8], bytes: usize) -> bool {
        // SAFETY: the caller's promise.
        unsafe { (self.pq_check)(int(columns.len()), int(bytes), array(columns)) == 0 }
    }

    /// Every output as the combination of all sources that `tables` says.
    pub unsafe fn encode(
        &self,
        tables: &EncodeTables,
        sources: &[*mut u8],
        outputs: &[*mut u8],
        bytes: usize,
    ) {
        assert_eq!(
            (sources.len(), outputs.len()),
            (tables.sources, tables.outputs)
        );
        // SAFETY: the caller's promise; the tables are for this many sources and outputs.
        unsafe {
            (self.ec_encode_data)(
                int(bytes),
                int(sources.len()),
                int(outputs.len()),
                tables.bytes.as_ptr().cast_mut(),
                sources.as_ptr().cast_mut(),
                outputs.as_ptr().cast_mut(),
            );
        }
    }

    /// Tables that generate P and Q of `data` columns.
    pub fn raid6(&self, data: usize) -> EncodeTables {
        let matrix = self.matrix(data);
        self.tables(&matrix[data * data..], data, 2)
    }

    /// Tables that recover the data columns `lost` from the others, P and Q, in that order.
    pub fn recovery(&self, data: usize, lost: [usize; 2]) -> EncodeTables {
        let matrix = self.matrix(data);
        let rows = (0..data + 2).filter(|row| !lost.contains(row));
        let mut left: Vec<u8> = rows
            .flat_map(|row| matrix[row * data..][..data].to_vec())
            .collect();
        let mut inverse = vec![0; data * data];
        // SAFETY: both matrices are `data` squared bytes.
        let singular =
            unsafe { (self.gf_invert_matrix)(left.as_mut_ptr(), inverse.as_mut_ptr(), int(data)) };
        assert_eq!(singular, 0, "two lost columns can always be recovered");
        let rows = lost.map(|lost| &inverse[lost * data..][..data]).concat();
        self.tables(&rows, data, 2)
    }

    /// The identity above the coefficients of P and Q: powers of 1 and of 2.
    fn matrix(&self, data: usize) -> Vec<u8> {
        let mut matrix = vec![0; (data + 2) * data];
        // SAFETY: the matrix has `data` + 2 rows of `data` bytes.
        unsafe { (self.gf_gen_rs_matrix)(matrix.as_mut_ptr(), int(data + 2), int(data)) };
        matrix
    }

    fn tables(&self, rows: &[u8], sources: usize, outputs: usize) -> EncodeTables {
        let mut bytes = vec![0; 32 * sources * outputs];
        let rows = rows.as_ptr().cast_mut();
        // SAFETY: ISA-L makes 32 bytes of each of the `sources` x `outputs` coefficients.
        unsafe { (self.ec_init_tables)(int(sources), int(outputs), rows, bytes.as_mut_ptr()) };
        EncodeTables {
            bytes,
            sources,
            outputs,
        }
    }
}

fn int(count: usize) -> c_int {
    c_int::try_from(count).expect("sizes of the benchmark fit")
}

fn array(columns: &[*mut u8]) -> *mut *mut c_void {
    columns.as_ptr().cast_mut().cast()
}
