//! TPC-C's conditions of consistency (clause 3.3.2), asked of the database itself.

use std::panic::resume_unwind;

use super::DatabaseError;
use super::mariadb::Server;

/// The database that holds the tables.
pub(super) const DATABASE: &str = "tpcc";

/// Each condition's number, and a query for how often it is broken.
const CONDITIONS: [(&str, &str); 6] = [
    (
        "3.3.2.1",
        "select count(*) from warehouse join (select d_w_id, sum(d_ytd) as ytd from district \
         group by d_w_id) d on d_w_id = w_id where w_ytd <> ytd",
    ),
    (
        "3.3.2.2",
        "select count(*) from district join (select o_w_id, o_d_id, max(o_id) as last from orders \
         group by o_w_id, o_d_id) o on o_w_id = d_w_id and o_d_id = d_id \
         where d_next_o_id - 1 <> last",
    ),
    (
        "3.3.2.3",
        "select count(*) from (select max(no_o_id) - min(no_o_id) + 1 - count(*) as gap from \
         new_order group by no_w_id, no_d_id) n where gap <> 0",
    ),
    (
        "3.3.2.4",
        "select count(*) from (select o_w_id, o_d_id, sum(o_ol_cnt) as stated from orders group by \
         o_w_id, o_d_id) o join (select ol_w_id, ol_d_id, count(*) as found from order_line group \
         by ol_w_id, ol_d_id) l on ol_w_id = o_w_id and ol_d_id = o_d_id where stated <> found",
    ),
    (
        "3.3.2.5",
        "select count(*) from orders left join new_order on no_w_id = o_w_id and no_d_id = o_d_id \
         and no_o_id = o_id where (o_carrier_id is null) <> (no_o_id is not null)",
    ),
    (
        "3.3.2.8",
        "select count(*) from warehouse join (select h_w_id, sum(h_amount) as paid from history \
         group by h_w_id) h on h_w_id = w_id where w_ytd <> paid",
    ),
];

/// Checks every condition; gives how many there are. They are asked side by side, as each waits
/// for one page of the drive after the other.
pub(super) fn check(server: &Server) -> Result<u32, DatabaseError> {
    std::thread::scope(|scope| {
        let asked = CONDITIONS.map(|(number, query)| {
            let statement = format!("use {DATABASE}; {query}");
            (number, scope.spawn(move || server.ask(&statement)))
        });
        for (number, answer) in asked {
            let broken = answer.join().unwrap_or_else(|panic| resume_unwind(panic))?;
            if broken != "0" {
                return Err(DatabaseError::Inconsistent(format!(
                    "condition {number} of TPC-C is broken {broken} times"
                )));
            }
        }
        Ok(CONDITIONS.len() as u32)
    })
}
