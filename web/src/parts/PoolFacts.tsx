import { Group, Progress, SimpleGrid, Text } from "@mantine/core";
import type { Schemas } from "../api/client";
import { bytes, dateTime, percent } from "./format";

type Pool = Schemas["Pool"];

/** Figures of a pool. */
export function PoolFacts({ pool }: { pool: Pool }) {
  const written = pool.counters.host_blocks_written;
  const amplification = (pool.counters.stripe_blocks_written + pool.counters.map_blocks_written) / written;
  return (
    <SimpleGrid cols={{ base: 2, sm: 4, xl: 6 }} mt="sm">
      <Fact title="Redundancy left" value={redundancyLeft(pool)} />
      <Fact title="Write amplification" value={written > 0 ? amplification.toFixed(2) : "no writes yet"} />
      <Fact title="Garbage collection" value={bytes(pool.counters.relocated_blocks * 4096)} />
      <Fact title="Rebalanced" value={bytes(pool.counters.rebalanced_blocks * 4096)} />
      <Fact title="Repaired" value={bytes(pool.counters.repaired_blocks * 4096)} />
      <Fact title="Free" value={bytes(Math.max(0, pool.usable_bytes - pool.used_bytes - (pool.reserved_bytes ?? 0)))} />
      <Fact title="Reserved" value={bytes(pool.reserved_bytes ?? 0)} />
      <Fact title="Reclaiming" value={bytes(pool.deleted_bytes ?? 0)} />
      <Fact title="Last scrub" value={pool.scrubbed ? dateTime(pool.scrubbed) : "never"} />
      {pool.map && <Fact title="Map and cache" value={`${bytes(pool.map.bytes)}, ${bytes(pool.map.cached_bytes)}`} />}
      <Fact title="Reconstructed reads" value={String(pool.counters.reconstructed_reads)} />
      <Fact title="Unrecovered reads" value={String(pool.counters.unrecovered_reads)} />
    </SimpleGrid>
  );
}

/** How many more drives may fail, whichever they are. */
function redundancyLeft({ drives_to_spare }: Pool): string {
  if (drives_to_spare == null) return "-";
  if (drives_to_spare === 0) return "none";
  return drives_to_spare === 1 ? "1 drive" : `${drives_to_spare} drives`;
}

function Fact({ title, value }: { title: string; value: string }) {
  return <div><Text size="xs" c="dimmed">{title}</Text><Text size="sm" fw={600}>{value}</Text></div>;
}

/** How full, with the marks at which the node warns. */
export function Fill({ used, usable }: { used: number; usable: number }) {
  const share = usable > 0 ? used / usable : 0;
  const colour = share >= 0.95 ? "red" : share >= 0.8 ? "yellow" : "cyan";
  return (
    <div>
      <Group justify="space-between">
        <Text size="sm">{bytes(used)} of {bytes(usable)}</Text>
        <Text size="sm">{percent(share)}</Text>
      </Group>
      <Progress value={share * 100} color={colour} size="lg" aria-label="Space used" />
    </div>
  );
}
