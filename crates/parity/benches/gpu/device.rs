//! A GPU: its memory, the kernels in it, and batches on their way through it.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{self, CUdeviceptr, CUevent_flags};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaFunction, CudaStream, DriverError, LaunchConfig, PushKernelArg,
    result,
};
use cudarc::nvrtc::Ptx;

use crate::kernels::{self, BLOCK_BYTES, Batch, Job, Launch};

/// What `.ci/gpu ptx` made of `kernels.cu`.
const KERNELS: &str = include_str!("kernels.ptx");
const NAMES: [&str; 4] = ["generate_pq", "recover_one", "recover_two", "checksums"];

/// Batches that are on their way at once, each on a stream of its own.
pub const IN_FLIGHT: usize = 4;

/// Where a batch is, and where its results are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Both in the GPU's memory.
    Device,
    /// The columns in the GPU's memory; results in the host's.
    ResultsBack,
    /// Both in the host's memory, of which no page moves.
    Host,
}

impl Way {
    pub const ALL: [Way; 3] = [Way::Device, Way::ResultsBack, Way::Host];

    pub fn name(self) -> &'static str {
        match self {
            Way::Device => "device memory",
            Way::ResultsBack => "results copied back",
            Way::Host => "host memory",
        }
    }
}

/// Memory of the host that stays where it is, or of the GPU.
struct Memory {
    host: *mut c_void,
    device: CUdeviceptr,
}

/// One place for a batch.
struct Lane {
    stream: Arc<CudaStream>,
    input: Memory,
    results: Memory,
    sums: Memory,
    /// Reached when the batch before is done.
    done: CudaEvent,
}

/// The GPU, ready for batches.
pub struct Device {
    context: Arc<CudaContext>,
    functions: Vec<CudaFunction>,
    tables: CUdeviceptr,
    lanes: Vec<Lane>,
    /// The most that a batch may have of input, and of results.
    most_bytes: usize,
}

/// The first GPU's, or why there is none.
pub fn open() -> Result<Arc<CudaContext>, String> {
    // SAFETY: loading the driver's library runs its initialisers, which expect nothing of us.
    if !unsafe { sys::is_culib_present() } {
        return Err("NVIDIA's driver (libcuda.so.1) is not on this machine".to_owned());
    }
    CudaContext::new(0).map_err(|error| format!("the driver says {error}"))
}

impl Device {
    /// Loads the kernels, and takes memory for [`IN_FLIGHT`] batches with `input` in them, which
    /// is as long as the longest.
    pub fn new(context: Arc<CudaContext>, input: &[u8]) -> Result<Device, DriverError> {
        let module = context.load_module(Ptx::from_src(KERNELS))?;
        let functions = NAMES.map(|name| module.load_function(name));
        let functions: Result<Vec<CudaFunction>, DriverError> = functions.into_iter().collect();
        let table = kernels::tables();
        // SAFETY: the context is bound; the memory is as long as the tables are.
        let tables = unsafe {
            let tables = result::malloc_sync(size_of_val(table.as_slice()))?;
            result::memcpy_htod_sync(tables, &table)?;
            tables
        };
        let lanes = (0..IN_FLIGHT).map(|_| Lane::new(&context, input));
        Ok(Device {
            functions: functions?,
            tables,
            lanes: lanes.collect::<Result<_, _>>()?,
            most_bytes: input.len(),
            context,
        })
    }

    pub fn name(&self) -> Result<String, DriverError> {
        self.context.name()
    }

    /// Sends a batch on its way, on this lane; the one before it has to be done.
    pub fn submit(&self, lane: usize, way: Way, job: Job, batch: Batch) -> Result<(), DriverError> {
        let lane = &self.lanes[lane];
        let (input, results) = (batch.bytes(), batch.result_bytes(job));
        assert!(input.max(results) <= self.most_bytes, "batches fit");
        if way == Way::Host {
            // SAFETY: both memories are long enough, and are left alone until this is done.
            unsafe { lane.input.to_device(input, &lane.stream)? };
        }
        let columns = kernels::columns(job, batch);
        self.launch(
            lane,
            &columns,
            (lane.input.device, lane.results.device),
            None,
        )?;
        let mut sums = 0;
        if job == Job::PqAndChecksums {
            let mut to = lane.sums.device;
            for (from, bytes) in [(lane.input.device, input), (lane.results.device, results)] {
                self.launch(
                    lane,
                    &kernels::checksums(bytes),
                    (from, to),
                    Some(self.tables),
                )?;
                let written = sum_bytes(bytes);
                to += written as CUdeviceptr;
                sums += written;
            }
        }
        if way != Way::Device {
            // SAFETY: as above.
            unsafe {
                lane.results.to_host(results, &lane.stream)?;
                if sums > 0 {
                    lane.sums.to_host(sums, &lane.stream)?;
                }
            }
        }
        lane.done.record(&lane.stream)
    }

    /// Waits until the batch of this lane is done.
    pub fn wait(&self, lane: usize) -> Result<(), DriverError> {
        self.lanes[lane].done.synchronize()
    }

    /// What the first lane's batch left in the GPU's memory: columns, then checksums.
    pub fn results(&self, job: Job, batch: Batch) -> Result<(Vec<u8>, Vec<u32>), DriverError> {
        let mut columns = vec![0; batch.result_bytes(job)];
        let mut sums = Vec::new();
        if job == Job::PqAndChecksums {
            sums = vec![0_u32; (sum_bytes(batch.bytes()) + sum_bytes(columns.len())) / 4];
        }
        let lane = &self.lanes[0];
        // SAFETY: the lane is idle, and its memory is longer than what is copied.
        unsafe {
            result::memcpy_dtoh_sync(&mut columns, lane.results.device)?;
            if !sums.is_empty() {
                result::memcpy_dtoh_sync(&mut sums, lane.sums.device)?;
            }
        }
        Ok((columns, sums))
    }

    /// What the first lane's batch left in the host's memory.
    pub fn copied_back(&self, job: Job, batch: Batch) -> &[u8] {
        let host = self.lanes[0].results.host.cast::<u8>();
        // SAFETY: the lane is idle, and its memory lasts as long as the device.
        unsafe { std::slice::from_raw_parts(host, batch.result_bytes(job)) }
    }

    fn launch(
        &self,
        lane: &Lane,
        launch: &Launch,
        (from, to): (CUdeviceptr, CUdeviceptr),
        tables: Option<CUdeviceptr>,
    ) -> Result<(), DriverError> {
        let nth = NAMES.iter().position(|name| *name == launch.kernel);
        let function = &self.functions[nth.expect("every kernel is loaded")];
        let mut arguments = lane.stream.launch_builder(function);
        arguments.arg(&from).arg(&to);
        if let Some(tables) = &tables {
            arguments.arg(tables);
        }
        for argument in &launch.arguments {
            arguments.arg(argument);
        }
        let config = LaunchConfig {
            grid_dim: (launch.grid.0, launch.grid.1, 1),
            block_dim: (launch.threads, 1, 1),
            shared_mem_bytes: 0,
        };
        // SAFETY: the arguments are those of the kernel, which the test of the same launches runs
        // under a sanitizer of addresses; the memory is of the lane, whose batches take turns.
        unsafe { arguments.launch(config) }.map(|_| ())
    }
}

impl Lane {
    fn new(context: &Arc<CudaContext>, input: &[u8]) -> Result<Lane, DriverError> {
        let stream = context.new_stream()?;
        let lane = Lane {
            input: Memory::new(input.len())?,
            results: Memory::new(input.len())?,
            sums: Memory::new(2 * sum_bytes(input.len()))?,
            done: context.new_event(Some(CUevent_flags::CU_EVENT_DISABLE_TIMING))?,
            stream,
        };
        // SAFETY: the memory is as long as the input, and nothing uses it yet.
        unsafe {
            lane.input
                .host
                .cast::<u8>()
                .copy_from(input.as_ptr(), input.len());
            lane.input.to_device(input.len(), &lane.stream)?;
        }
        lane.stream.synchronize()?;
        Ok(lane)
    }
}

impl Memory {
    /// Both kinds, `bytes` of each. They last as long as the process.
    fn new(bytes: usize) -> Result<Memory, DriverError> {
        // SAFETY: the context is bound; what was never written is written before it is read.
        unsafe {
            Ok(Memory {
                host: result::malloc_host(bytes, 0)?,
                device: result::malloc_sync(bytes)?,
            })
        }
    }

    /// # Safety
    /// Here and below: both have `bytes`, and nobody else uses them until the stream got there.
    unsafe fn to_device(&self, bytes: usize, stream: &CudaStream) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe {
            let host = std::slice::from_raw_parts(self.host.cast::<u8>(), bytes);
            result::memcpy_htod_async(self.device, host, stream.cu_stream())
        }
    }

    unsafe fn to_host(&self, bytes: usize, stream: &CudaStream) -> Result<(), DriverError> {
        // SAFETY: the caller's promise.
        unsafe {
            let host = std::slice::from_raw_parts_mut(self.host.cast::<u8>(), bytes);
            result::memcpy_dtoh_async(host, self.device, stream.cu_stream())
        }
    }
}

/// Bytes of the checksums of so many bytes.
fn sum_bytes(bytes: usize) -> usize {
    bytes / BLOCK_BYTES * size_of::<u32>()
}
