import { SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { useEvents } from "../api/queries";
import { DataTable } from "../parts/DataTable";
import { ago, dateTime } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";

const LEVELS = { info: 0, warning: 1, error: 2 };

/** What happened, the latest first. */
export function Events() {
  const events = useEvents();
  const [least, setLeast] = useState<keyof typeof LEVELS>("info");
  const choice = (
    <SegmentedControl
      aria-label="Severity"
      size="xs"
      value={least}
      onChange={(value) => setLeast(value as keyof typeof LEVELS)}
      data={[
        { value: "info", label: "All" },
        { value: "warning", label: "Warnings" },
        { value: "error", label: "Errors" },
      ]}
    />
  );
  return (
    <Page title="Events" actions={choice}>
      <Loaded of={events}>
        {(all) => (
          <DataTable
            label="Events"
            rows={all.filter((event) => LEVELS[event.severity] >= LEVELS[least]).reverse()}
            id={(event) => String(event.id)}
            text={(event) => `${event.object} ${event.message}`}
            empty={<Empty title="Nothing to report" />}
            columns={[
              {
                title: "Time",
                cell: (event) => <time dateTime={event.time} title={dateTime(event.time)}>{ago(event.time)}</time>,
                order: (event) => event.id,
              },
              { title: "Severity", cell: (event) => <StateBadge state={event.severity} />, order: (event) => LEVELS[event.severity] },
              { title: "Object", cell: (event) => event.object, order: (event) => event.object, wide: true },
              { title: "Message", cell: (event) => event.message },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}
