package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// bulkSizes are the numbers of rows that a prepared statement takes, largest first.
var bulkSizes = [...]int{500, 64, 8, 1}

// bulk writes the rows that a transaction has many of.
type bulk struct {
	text    string // the INSERT of one row
	columns int
	stmts   [len(bulkSizes)]driver.Stmt
	args    []driver.NamedValue // of the rows on their way, reused
}

// add takes a row; it is written at the latest by flush.
func (b *bulk) add(conn *sql.Conn, row ...driver.Value) error {
	for _, v := range row {
		b.args = append(b.args, driver.NamedValue{Value: v})
	}
	if len(b.args) == bulkSizes[0]*b.columns {
		return b.flush(conn)
	}
	return nil
}

func (b *bulk) flush(conn *sql.Conn) error {
	args := b.args
	for i, n := range bulkSizes {
		for len(args) >= n*b.columns {
			if err := b.insert(conn, i, args[:n*b.columns]); err != nil {
				return err
			}
			args = args[n*b.columns:]
		}
	}
	b.drop()
	return nil
}

// drop forgets the rows that have not been written.
func (b *bulk) drop() {
	clear(b.args)
	b.args = b.args[:0]
}

// insert writes bulkSizes[i] rows. It talks to the driver itself, on the same connection: database/sql
// would copy every argument, which costs a seventh of a large commit. A statement is prepared when
// it is first needed: the large ones are costly, and a small pipeline never needs them.
func (b *bulk) insert(conn *sql.Conn, i int, args []driver.NamedValue) error {
	for j := range args {
		args[j].Ordinal = j + 1
	}
	return conn.Raw(func(conn any) (err error) {
		ctx := context.Background()
		if b.stmts[i] == nil {
			if b.stmts[i], err = conn.(driver.ConnPrepareContext).PrepareContext(ctx, values(b.text, bulkSizes[i])); err != nil {
				return err
			}
		}
		_, err = b.stmts[i].(driver.StmtExecContext).ExecContext(ctx, args)
		return err
	})
}

func (b *bulk) close() error {
	var errs []error
	for _, stmt := range b.stmts {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	return errors.Join(errs...)
}
