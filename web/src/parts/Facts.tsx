import { Card, Table, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** Properties of one object, a line each. */
export function Facts({ label, title, rows }: { label: string; title?: string; rows: [string, ReactNode][] }) {
  return (
    <Card withBorder>
      {title && <Title order={2} size="h5" mb="xs">{title}</Title>}
      <Table aria-label={label} verticalSpacing={4}>
        <Table.Tbody>
          {rows.map(([title, value]) => (
            <Table.Tr key={title}>
              <Table.Th scope="row" fw={400} c="dimmed" w="40%">{title}</Table.Th>
              <Table.Td style={{ overflowWrap: "anywhere" }}>{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Card>
  );
}
