import { Anchor, Card, Group, Title } from "@mantine/core";
import { Link, useParams } from "wouter";
import { answer, node } from "../api/client";
import { useTenant } from "../api/queries";
import { Grants } from "../parts/Grants";
import { LimitsForm, NO_LIMITS } from "../parts/Limits";
import { Empty, Loaded, Page } from "../parts/Page";

/** One tenant: its grants, its limits and its volumes. */
export function TenantDetail() {
  const { name } = useParams<{ name: string }>();
  const tenant = useTenant(name);
  return (
    <Page title={`Tenant ${name}`}>
      <Loaded of={tenant}>
        {(found) => (
          <>
            <Grants tenant={name} grants={found.grants ?? []} />
            <LimitsForm key={JSON.stringify(found.limits)} of={name} limits={found.limits ?? NO_LIMITS} minimum="Guaranteed to its volumes together."
              ask={(body) => answer(node.PUT("/v1/tenants/{name}/limits", { params: { path: { name } }, body }))} />
            <Card withBorder>
              <Title order={2} size="h5" mb="xs">Volumes</Title>
              {found.volumes.length === 0
                ? <Empty title="No volumes" />
                : (
                  <Group gap="xs">
                    {found.volumes.map((volume) => <Anchor key={volume} component={Link} href={`/volumes/${volume}`} size="sm">{volume}</Anchor>)}
                  </Group>
                )}
            </Card>
          </>
        )}
      </Loaded>
    </Page>
  );
}
