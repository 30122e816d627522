import { BarChart } from "@mantine/charts";
import { Text } from "@mantine/core";
import type { Schemas } from "../api/client";
import { ticks } from "./ticks";

/** What a pool's segments are: free, in use, and how much of the full ones still lives. */
export function Segments({ pool, segments }: { pool: string; segments: Schemas["PoolSegments"] }) {
  const { free, ready, open, cleaning, map, closed } = segments;
  const full = closed.reduce((sum, count) => sum + count, 0);
  const bins = closed.map((count, tenth) => ({ share: `${tenth * 10}–${tenth * 10 + 10}%`, Segments: count }));
  const levels = ticks(Math.max(...closed), "whole", 2);
  const words = bins.filter((bin) => bin.Segments > 0).map((bin) => `${bin.share} live: ${bin.Segments}`);
  return (
    <div>
      <Text size="sm" mt="sm">
        Segments: {free} free, {ready} ready, {open} open, {full} full, {cleaning} being cleaned, {map} of the map
      </Text>
      {full > 0 && (
        <>
          <Text size="xs" c="dimmed" mb={4}>Full segments by live data; garbage collection reclaims the rest</Text>
          <BarChart
            h={120}
            data={bins}
            dataKey="share"
            series={[{ name: "Segments", color: "cyan.7" }]}
            withTooltip
            yAxisProps={{ width: 40, ticks: levels, domain: [0, levels[levels.length - 1] ?? 1], interval: 0 }}
            barProps={{ isAnimationActive: false }}
            role="img"
            aria-label={`Full segments of ${pool}: ${words.join(", ")}`}
          />
        </>
      )}
    </div>
  );
}
