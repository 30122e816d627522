import { Box, Table, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";

export interface Column<Row> {
  title: string;
  /** What is shown. */
  cell: (row: Row) => ReactNode;
  /** What the column is sorted by; without one it is not sortable. */
  order?: (row: Row) => string | number;
  align?: "left" | "right";
  /** The narrowest screen that shows the column. */
  from?: "sm" | "md" | "lg" | "xl";
  /** Its text stays on one line, but on a phone. */
  keep?: boolean;
  /** Its width in pixels; once a column has one, none depends on the rows in sight. */
  width?: number;
}

interface Props<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  id: (row: Row) => string;
  /** The text that the filter looks into; without one there is no filter. */
  text?: (row: Row) => string;
  empty: ReactNode;
  /** Told which rows are in sight. */
  seen?: (rows: Row[]) => void;
}

const ROW_PIXELS = 45;

/** A table that stays legible with no rows and with ten thousand: filter, order, and only the rows
 * in sight are on the page. */
export function DataTable<Row>({ label, rows, columns, id, text, empty, seen }: Props<Row>) {
  const [filter, setFilter] = useState("");
  const [sorted, setSorted] = useState<{ column: number; down: boolean } | null>(null);
  const shown = useMemo(
    () => ordered(filtered(rows, filter, text), sorted ? columns[sorted.column]?.order : undefined, sorted?.down ?? false),
    [rows, columns, filter, sorted, text],
  );
  if (rows.length === 0) return <>{empty}</>;
  const sort = (column: number) => setSorted({ column, down: sorted?.column === column && !sorted.down });
  return (
    <Box>
      {text && rows.length > 5 && (
        <TextInput
          aria-label={`Filter ${label.toLowerCase()}`}
          placeholder="Filter"
          value={filter}
          onChange={(event) => setFilter(event.currentTarget.value)}
          mb="sm"
          maw={320}
        />
      )}
      <Rows label={label} rows={shown} columns={columns} id={id} sorted={sorted} sort={sort} seen={seen} />
      <Text size="sm" c="dimmed" role="status" mt="xs">
        {shown.length === rows.length ? `${rows.length} in all` : `${shown.length} of ${rows.length}`}
      </Text>
    </Box>
  );
}

function filtered<Row>(rows: Row[], filter: string, text: ((row: Row) => string) | undefined): Row[] {
  const wanted = filter.trim().toLowerCase();
  return text && wanted ? rows.filter((row) => text(row).toLowerCase().includes(wanted)) : rows;
}

function ordered<Row>(rows: Row[], order: Column<Row>["order"], down: boolean): Row[] {
  if (!order) return rows;
  const sign = down ? -1 : 1;
  const keyed = rows.map((row) => ({ row, key: order(row) }));
  return keyed.sort((a, b) => sign * compare(a.key, b.key)).map(({ row }) => row);
}

const WORDS = new Intl.Collator(undefined, { numeric: true });

function compare(a: string | number, b: string | number): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return WORDS.compare(String(a), String(b));
}

interface RowsProps<Row> {
  label: string;
  rows: Row[];
  columns: Column<Row>[];
  id: (row: Row) => string;
  sorted: { column: number; down: boolean } | null;
  sort: (column: number) => void;
  seen: ((rows: Row[]) => void) | undefined;
}

function Rows<Row>({ label, rows, columns, id, sorted, sort, seen }: RowsProps<Row>) {
  const frame = useRef<HTMLDivElement>(null);
  const sight = useVirtualizer({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_PIXELS,
    overscan: 8,
  });
  const inSight = sight.getVirtualItems();
  const first = inSight[0];
  const last = inSight[inSight.length - 1];
  const begin = first?.index ?? 0;
  const end = (last?.index ?? -1) + 1;
  useEffect(() => { seen?.(rows.slice(begin, end)); }, [seen, rows, begin, end]);
  const above = first?.start ?? 0;
  const below = last ? sight.getTotalSize() - last.end : 0;
  const fixed = columns.some((column) => column.width !== undefined);
  return (
    <Box ref={frame} className="table-frame" tabIndex={0} role="group" aria-label={`${label}, scrolled by arrow keys`}>
      <Table highlightOnHover stickyHeader verticalSpacing="xs" aria-label={label}
        aria-rowcount={rows.length + 1} layout={fixed ? "fixed" : "auto"}>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column, index) => (
              <Heading key={column.title} column={column} sort={() => sort(index)}
                down={sorted?.column === index ? sorted.down : undefined} />
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {above > 0 && <Gap pixels={above} columns={columns.length} />}
          {inSight.map(({ index }) => {
            const row = rows[index];
            return row === undefined ? null : (
              <Table.Tr key={id(row)} ref={sight.measureElement} data-index={index} aria-rowindex={index + 2}>
                {columns.map((column) => (
                  <Table.Td key={column.title} {...look(column)}>{column.cell(row)}</Table.Td>
                ))}
              </Table.Tr>
            );
          })}
          {below > 0 && <Gap pixels={below} columns={columns.length} />}
        </Table.Tbody>
      </Table>
    </Box>
  );
}

/** The place of rows that are out of sight. */
function Gap({ pixels, columns }: { pixels: number; columns: number }) {
  return <tr aria-hidden="true"><td colSpan={columns} style={{ height: pixels, padding: 0, border: 0 }} /></tr>;
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
    <Table.Th aria-sort={column.order ? direction : undefined} w={column.width} {...look(column)}>
      {column.order
        ? <UnstyledButton fw={600} fz="sm" ta="inherit" className="heading" onClick={sort}>{column.title}{arrow}</UnstyledButton>
        : column.title}
    </Table.Th>
  );
}

function look<Row>(column: Column<Row>) {
  return {
    ta: column.align ?? ("left" as const),
    visibleFrom: column.from,
    className: column.keep ? "keep" : undefined,
    style: column.align === "right" ? { fontVariantNumeric: "tabular-nums" } : undefined,
  };
}
