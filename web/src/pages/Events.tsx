import { Group, NativeSelect, SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { useEvents } from "../api/queries";
import { DataTable } from "../parts/DataTable";
import { dateTime } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";

const LEVELS = { info: 0, warning: 1, error: 2 };

const SPANS = [
  { value: "", label: "Any time" },
  { value: "3600", label: "Last hour" },
  { value: "86400", label: "Last day" },
  { value: "604800", label: "Last week" },
];

/** What happened, the latest first. */
export function Events() {
  const events = useEvents();
  const [least, setLeast] = useState<keyof typeof LEVELS>("info");
  const [object, setObject] = useState("");
  const [span, setSpan] = useState("");
  const objects = [...new Set((events.data ?? []).map((event) => event.object))].sort();
  const since = span ? Date.now() - Number(span) * 1000 : 0;
  return (
    <Page title="Events">
      <Group gap="xs">
        <SegmentedControl aria-label="Severity" size="xs" value={least} onChange={(value) => setLeast(value as keyof typeof LEVELS)}
          data={[{ value: "info", label: "All" }, { value: "warning", label: "Warnings" }, { value: "error", label: "Errors" }]} />
        <NativeSelect aria-label="Object" size="xs" value={object} onChange={(event) => setObject(event.currentTarget.value)}
          data={[{ value: "", label: "All objects" }, ...objects]} />
        <NativeSelect aria-label="Time" size="xs" value={span} onChange={(event) => setSpan(event.currentTarget.value)} data={SPANS} />
      </Group>
      <Loaded of={events}>
        {(all) => (
          <DataTable
            label="Events"
            rows={all.filter((event) => LEVELS[event.severity] >= LEVELS[least]
              && (!object || event.object === object) && new Date(event.time).getTime() >= since).reverse()}
            id={(event) => String(event.id)}
            text={(event) => `${event.object} ${event.message}`}
            empty={<Empty title={all.length > 0 ? "No such events" : "Nothing to report"} />}
            columns={[
              { title: "Time", keep: true, cell: (event) => dateTime(event.time), order: (event) => event.id },
              { title: "Severity", cell: (event) => <StateBadge state={event.severity} />, order: (event) => LEVELS[event.severity] },
              { title: "Object", cell: (event) => event.object, order: (event) => event.object, from: "sm" },
              { title: "Message", cell: (event) => event.message },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}
