import { Anchor, Button } from "@mantine/core";
import { useState } from "react";
import { Link, useLocation } from "wouter";
import type { Schemas } from "../api/client";
import { useTenants } from "../api/queries";
import { DataTable } from "../parts/DataTable";
import { bytes, scaled } from "../parts/format";
import { GrantForm } from "../parts/Grants";
import { Empty, Loaded, Page } from "../parts/Page";

type Tenant = Schemas["Tenant"];

/** Owners of volumes, hosts and tokens, with what they were granted and may do. */
export function Tenants() {
  const tenants = useTenants();
  const [, go] = useLocation();
  const [granting, setGranting] = useState(false);
  return (
    <Page title="Tenants" actions={<Button onClick={() => setGranting(true)}>Grant space</Button>}>
      <Loaded of={tenants}>
        {(rows) => (
          <DataTable
            label="Tenants"
            rows={rows}
            id={(tenant) => tenant.name}
            text={(tenant) => `${tenant.name} ${(tenant.grants ?? []).map(({ pool }) => pool).join(" ")}`}
            empty={<Empty title="No tenants yet">A tenant begins with a grant of space in a pool, a token or an object of its own.</Empty>}
            columns={[
              {
                title: "Name",
                cell: (tenant) => <Anchor component={Link} href={`/tenants/${tenant.name}`}>{tenant.name}</Anchor>,
                order: (tenant) => tenant.name,
              },
              { title: "Volumes", cell: (tenant) => tenant.volumes.length, order: (tenant) => tenant.volumes.length, align: "right" },
              { title: "Granted", cell: granted },
              { title: "Limits", cell: limits, from: "sm" },
            ]}
          />
        )}
      </Loaded>
      {granting && <GrantForm close={() => setGranting(false)} made={(tenant) => go(`/tenants/${tenant}`)} />}
    </Page>
  );
}

function granted(tenant: Tenant): string {
  const words = (tenant.grants ?? []).map(({ pool, grant, used }) => (
    `${used ? `${bytes(used.bytes)} of ` : ""}${bytes(Number(grant.size))} in ${pool}`
  ));
  return words.join(", ") || "nothing";
}

function limits({ limits }: Tenant): string {
  const words = [
    limits?.total?.iops && `${scaled(limits.total.iops).trim()} IOPS`,
    limits?.total?.bytes_per_second && `${scaled(limits.total.bytes_per_second)}B/s`,
    limits?.minimum_iops && `at least ${scaled(limits.minimum_iops).trim()} IOPS`,
  ].filter(Boolean);
  return words.join(", ") || (limits?.read || limits?.write ? "by direction" : "none");
}
