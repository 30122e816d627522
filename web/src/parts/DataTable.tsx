import { Group, Pagination, Table, Text, TextInput, UnstyledButton } from "@mantine/core";
import { type ReactNode, useMemo, useState } from "react";

export interface Column<Row> {
  title: string;
  /** What is shown. */
  cell: (row: Row) => ReactNode;
  /** What the column is sorted by; without one it is not sortable. */
  order?: (row: Row) => string | number;
  align?: "left" | "right";
  /** Hidden on a phone. */
  wide?: boolean;
}

interface Props<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  id: (row: Row) => string;
  /** The text that the filter looks into; without one there is no filter. */
  text?: (row: Row) => string;
  empty: ReactNode;
}

const PAGE_ROWS = 50;

/** A table that stays legible with no rows and with thousands: filter, order, pages. */
export function DataTable<Row>({ label, rows, columns, id, text, empty }: Props<Row>) {
  const [filter, setFilter] = useState("");
  const [sorted, setSorted] = useState<{ column: number; down: boolean } | null>(null);
  const [page, setPage] = useState(1);

  const shown = useMemo(() => {
    const wanted = filter.trim().toLowerCase();
    const found = text && wanted
      ? rows.filter((row) => text(row).toLowerCase().includes(wanted))
      : rows;
    const order = sorted ? columns[sorted.column]?.order : undefined;
    if (!order || !sorted) return found;
    const sign = sorted.down ? -1 : 1;
    return [...found].sort((a, b) => sign * compare(order(a), order(b)));
  }, [rows, columns, filter, sorted, text]);

  if (rows.length === 0) return <>{empty}</>;
  const pages = Math.max(1, Math.ceil(shown.length / PAGE_ROWS));
  const current = Math.min(page, pages);
  const visible = shown.slice((current - 1) * PAGE_ROWS, current * PAGE_ROWS);
  return (
    <>
      {text && rows.length > 5 && (
        <TextInput
          aria-label={`Filter ${label.toLowerCase()}`}
          placeholder="Filter"
          value={filter}
          onChange={(event) => { setFilter(event.currentTarget.value); setPage(1); }}
          mb="sm"
          maw={320}
        />
      )}
      <Table.ScrollContainer minWidth={320} scrollAreaProps={{ viewportProps: { tabIndex: 0 } }}>
        <Table striped highlightOnHover verticalSpacing="xs" aria-label={label}>
          <Table.Thead>
            <Table.Tr>
              {columns.map((column, index) => (
                <Heading
                  key={column.title}
                  column={column}
                  down={sorted?.column === index ? sorted.down : undefined}
                  sort={() => setSorted({
                    column: index,
                    down: sorted?.column === index && !sorted.down,
                  })}
                />
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {visible.map((row) => (
              <Table.Tr key={id(row)}>
                {columns.map((column) => (
                  <Table.Td key={column.title} {...look(column)}>{column.cell(row)}</Table.Td>
                ))}
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
      <Group justify="space-between" mt="sm">
        <Text size="sm" c="dimmed" role="status">
          {shown.length === rows.length ? `${rows.length} in all` : `${shown.length} of ${rows.length}`}
        </Text>
        {pages > 1 && (
          <Pagination
            total={pages}
            value={current}
            onChange={setPage}
            size="sm"
            getControlProps={(control) => ({ "aria-label": `${control} page` })}
            getItemProps={(number) => ({ "aria-label": `page ${number}` })}
          />
        )}
      </Group>
    </>
  );
}

interface HeadingProps<Row> {
  column: Column<Row>;
  down: boolean | undefined;
  sort: () => void;
}

function Heading<Row>({ column, down, sort }: HeadingProps<Row>) {
  const direction = down === undefined ? "none" : down ? "descending" : "ascending";
  const arrow = down === undefined ? "" : down ? " ↓" : " ↑";
  return (
    <Table.Th aria-sort={direction} {...look(column)}>
      {column.order
        ? <UnstyledButton fw={600} fz="sm" onClick={sort}>{column.title}{arrow}</UnstyledButton>
        : column.title}
    </Table.Th>
  );
}

function look<Row>(column: Column<Row>) {
  return {
    ta: column.align ?? ("left" as const),
    visibleFrom: column.wide ? ("sm" as const) : undefined,
    style: column.align === "right" ? { fontVariantNumeric: "tabular-nums" } : undefined,
  };
}

function compare(a: string | number, b: string | number): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), undefined, { numeric: true });
}
