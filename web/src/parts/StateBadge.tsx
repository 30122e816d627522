import { Badge, Tooltip } from "@mantine/core";

const COLOURS: Record<string, string> = {
  online: "green", active: "green", live: "green", done: "green", copied: "green", info: "blue", running: "blue",
  degraded: "yellow", warning: "yellow", rebuilding: "yellow", stale: "yellow",
  offline: "red", failed: "red", missing: "red", error: "red", no_redundancy_left: "red",
};

/** A state as a word and a colour; the word alone says everything. */
export function StateBadge({ state, reason }: { state: string; reason?: string | null }) {
  const badge = (
    <Badge color={COLOURS[state] ?? "gray"} variant="light" miw="max-content" tabIndex={reason ? 0 : undefined}>
      {state.replaceAll("_", " ")}
    </Badge>
  );
  return reason
    ? <Tooltip label={reason} multiline maw={360} events={{ hover: true, focus: true, touch: true }}>{badge}</Tooltip>
    : badge;
}
