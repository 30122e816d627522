import { Anchor, Button, Text } from "@mantine/core";
import { Fragment, useState } from "react";
import { Link } from "wouter";
import type { Schemas } from "../api/client";
import { answer, node } from "../api/client";
import { useSchedules, useVolumes } from "../api/queries";
import { Confirm } from "../parts/Confirm";
import { DataTable } from "../parts/DataTable";
import { Consequence, FormModal, several } from "../parts/FormModal";
import { dateTime } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { useChange } from "../parts/useChange";

type Schedule = Schemas["Schedule"];

/** Snapshots that the node takes by itself, and how many of them it keeps. */
export function Schedules() {
  const schedules = useSchedules();
  const [setting, setSetting] = useState<Schedule | "new" | null>(null);
  const [leaving, setLeaving] = useState<string | null>(null);
  return (
    <Page title="Schedules" actions={<Button onClick={() => setSetting("new")}>Create schedule</Button>}>
      <Loaded of={schedules}>
        {(rows) => (
          <DataTable
            label="Schedules"
            rows={rows}
            id={(schedule) => schedule.name}
            text={(schedule) => `${schedule.name} ${schedule.volumes.join(" ")} ${schedule.pool ?? ""} ${schedule.problem ?? ""}`}
            empty={<Empty title="No schedules yet">A schedule takes snapshots of volumes each hour, day or week, and keeps so many of them.</Empty>}
            columns={[
              { title: "Name", cell: (schedule) => schedule.name, order: (schedule) => schedule.name },
              { title: "Volumes", cell: volumes, from: "sm" },
              { title: "Pool", cell: (schedule) => schedule.pool ?? "-", order: (schedule) => schedule.pool ?? "", from: "lg" },
              { title: "Keeps", cell: ({ keep }) => kept(keep), from: "sm" },
              { title: "Snapshots", cell: ({ snapshots }) => snapshots.length, order: ({ snapshots }) => snapshots.length, align: "right", from: "lg" },
              { title: "Last", keep: true, cell: ({ last }) => last ? dateTime(last) : "-", order: ({ last }) => last ?? "", from: "lg" },
              { title: "Next", keep: true, cell: ({ next }) => dateTime(next), order: ({ next }) => next, from: "md" },
              { title: "Problem", cell: ({ problem }) => problem ? <Text size="sm" c="red">{problem}</Text> : "-", order: ({ problem }) => problem ?? "" },
              {
                title: "",
                align: "right",
                cell: (schedule) => (
                  <>
                    <Button size="compact-sm" variant="subtle" onClick={() => setSetting(schedule)} aria-label={`Change schedule ${schedule.name}`}>Change</Button>
                    <Button size="compact-sm" variant="subtle" color="red" onClick={() => setLeaving(schedule.name)} aria-label={`Delete schedule ${schedule.name}`}>Delete</Button>
                  </>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {setting && <Setting schedule={setting === "new" ? undefined : setting} close={() => setSetting(null)} />}
      {leaving && <Delete schedule={leaving} close={() => setLeaving(null)} />}
    </Page>
  );
}

function volumes({ volumes }: Schedule) {
  return volumes.map((name, index) => (
    <Fragment key={name}>{index > 0 && ", "}<Anchor component={Link} href={`/volumes/${name}`}>{name}</Anchor></Fragment>
  ));
}

function kept(keep: Schemas["Keep"]): string {
  const words = [[keep.hourly, "hourly"], [keep.daily, "daily"], [keep.weekly, "weekly"]] as const;
  return words.filter(([count]) => count).map(([count, word]) => `${count} ${word}`).join(", ");
}

function Setting({ schedule, close }: { schedule?: Schedule | undefined; close: () => void }) {
  const known = useVolumes();
  if (!known.data) return null;
  const inPools = known.data.filter(({ pool }) => pool);
  const count = (name: "hourly" | "daily" | "weekly", label: string, usual: number) => (
    { name: `keep.${name}`, label, initial: String(schedule ? schedule.keep[name] ?? 0 : usual) }
  );
  return (
    <FormModal
      title={schedule ? `Schedule ${schedule.name}` : "Create schedule"} verb={schedule ? "Save" : "Create"} close={close}
      ask={(values) => {
        const keep = { hourly: Number(values["keep.hourly"]), daily: Number(values["keep.daily"]), weekly: Number(values["keep.weekly"]) };
        const name = schedule?.name ?? values.name ?? "";
        return answer(node.PUT("/v1/schedules/{name}", { params: { path: { name } }, body: { volumes: several(values.volumes), keep } }));
      }}
      done={({ name = schedule?.name ?? "" }) => `Schedule ${name} ${schedule ? "changed" : "created"}`}
      fields={[
        ...(schedule ? [] : [{ name: "name", label: "Name" }]),
        {
          name: "volumes", label: "Volumes", kind: "several", initial: schedule?.volumes.join(",") ?? "",
          hint: "Of one pool: their snapshots are of one instant.",
          choices: inPools.map(({ name, pool }) => ({ value: name, label: `${name}, pool ${pool}` })),
        },
        count("hourly", "Hourly snapshots", 24),
        count("daily", "Daily snapshots", 7),
        count("weekly", "Weekly snapshots", 4),
      ]}>
      <Consequence lost={Boolean(schedule)}>
        {schedule
          ? "Snapshots that it keeps no longer are deleted, with the data that only they hold."
          : "The first snapshot of each hour, day and week (UTC) stays as that period's. The next ones replace the oldest."}
      </Consequence>
    </FormModal>
  );
}

function Delete({ schedule, close }: { schedule: string; close: () => void }) {
  const remove = useChange(
    () => answer(node.DELETE("/v1/schedules/{name}", { params: { path: { name: schedule } } })),
    () => `Schedule ${schedule} deleted`,
  );
  return (
    <Confirm
      title={`Delete schedule ${schedule}`}
      consequence="No snapshots are taken by it any more. Those that it took stay until somebody deletes them."
      name={schedule}
      verb="Delete"
      pending={remove.isPending}
      error={remove.error}
      confirm={() => remove.mutate(undefined, { onSuccess: close })}
      close={close}
    />
  );
}
