import { Card, Group, Table, Title } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  label: string;
  title: string;
  rows: [string, ReactNode][];
  /** What can be done about them. */
  action?: ReactNode;
}

/** Properties of one object, a line each. */
export function Facts({ label, title, rows, action }: Props) {
  return (
    <Card withBorder h="100%">
      <Group justify="space-between" mb="xs"><Title order={2} size="h5">{title}</Title>{action}</Group>
      <Table aria-label={label} verticalSpacing={4} horizontalSpacing={0}>
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
