import { Code, SegmentedControl } from "@mantine/core";
import { useState } from "react";
import { useAudit } from "../api/queries";
import type { Schemas } from "../api/client";
import { DataTable } from "../parts/DataTable";
import { dateTime } from "../parts/format";
import { Empty, Loaded, Page } from "../parts/Page";

type Entry = Schemas["AuditEntry"];

/** Who asked for which change, and how it ended; the latest first. */
export function Audit() {
  const audit = useAudit();
  const [which, setWhich] = useState("all");
  const choice = (
    <SegmentedControl aria-label="Results" size="xs" value={which} onChange={setWhich}
      data={[{ value: "all", label: "All" }, { value: "refused", label: "Refused" }]} />
  );
  return (
    <Page title="Audit log" actions={choice}>
      <Loaded of={audit}>
        {(all) => (
          <DataTable
            label="Audit log"
            rows={all.filter((entry) => which === "all" || entry.status >= 400).reverse()}
            id={(entry) => String(entry.id)}
            text={(entry) => `${entry.token} ${entry.from} ${entry.method} ${entry.path} ${result(entry)} ${entry.body ?? ""}`}
            empty={<Empty title="No changes">Every change through the API is listed here.</Empty>}
            columns={[
              { title: "Time", keep: true, cell: (entry) => dateTime(entry.time), order: (entry) => entry.id },
              { title: "Token", cell: (entry) => entry.token, order: (entry) => entry.token },
              { title: "Address", keep: true, cell: (entry) => entry.from, order: (entry) => entry.from, from: "lg" },
              { title: "Change", cell: (entry) => `${entry.method} ${entry.path}${entry.others ? `, and ${entry.others} more alike` : ""}`, order: (entry) => entry.path },
              { title: "Result", cell: result, order: (entry) => entry.status },
              { title: "Body", cell: (entry) => entry.body ? <Code style={{ whiteSpace: "pre-wrap" }}>{entry.body}</Code> : "-", from: "lg" },
            ]}
          />
        )}
      </Loaded>
    </Page>
  );
}

function result({ status, code }: Entry): string {
  return code ? `${status} ${code.replaceAll("_", " ")}` : String(status);
}
