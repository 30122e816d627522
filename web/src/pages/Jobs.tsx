import { Progress } from "@mantine/core";
import type { Schemas } from "../api/client";
import { useJobs } from "../api/queries";
import { DataTable } from "../parts/DataTable";
import { dateTime } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";
import { StateBadge } from "../parts/StateBadge";

type Job = Schemas["Job"];

const kind = (job: Job) => job.kind.replaceAll("_", " ");

/** Long operations: those that run, and those that ended since the node started. */
export function Jobs() {
  const jobs = useJobs();
  return (
    <Page title="Jobs">
      <Loaded of={jobs}>
        {(all) => (
          <DataTable
            label="Jobs"
            rows={[...all].sort((a, b) => Number(b.state === "running") - Number(a.state === "running") || b.id - a.id)}
            id={(job) => String(job.id)}
            text={(job) => `${kind(job)} ${job.object} ${job.state} ${job.message ?? ""}`}
            empty={<Empty title="No jobs since the node started">Scrubs, rebuilds, rebalances and removals of drives are listed here.</Empty>}
            columns={[
              { title: "Job", cell: (job) => job.id, order: (job) => job.id, align: "right", from: "sm" },
              { title: "Kind", cell: kind, order: kind },
              { title: "Object", cell: (job) => job.object, order: (job) => job.object },
              { title: "State", cell: (job) => <StateBadge state={job.state} />, order: (job) => job.state },
              {
                title: "Progress",
                cell: (job) => job.state === "running"
                  ? <Progress value={job.percent} animated aria-label={`${kind(job)} of ${job.object}: ${job.percent}%`} />
                  : `${job.percent}%`,
                order: (job) => job.percent,
              },
              { title: "Started", keep: true, cell: (job) => dateTime(job.started), order: (job) => job.started, from: "lg" },
              { title: "Ended", keep: true, cell: (job) => job.ended ? dateTime(job.ended) : "-", order: (job) => job.ended ?? "~", from: "md" },
              { title: "Message", cell: (job) => job.message ?? "-", from: "sm" },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}
