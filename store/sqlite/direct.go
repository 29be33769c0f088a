package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// direct is a statement of every commit. Like bulk it talks to the driver itself, on the writer's connection: database/sql
// would lock, copy and check for each execution what is always the same.
type direct struct {
	stmt driver.Stmt
	args []driver.NamedValue // scratch
}

func (d *direct) prepare(conn *sql.Conn, text string) error {
	return conn.Raw(func(conn any) (err error) {
		d.stmt, err = conn.(driver.ConnPrepareContext).PrepareContext(context.Background(), text)
		return err
	})
}

// exec executes the statement with values as the driver takes them.
func (d *direct) exec(conn *sql.Conn, args ...driver.Value) error {
	for i, v := range args {
		d.args = append(d.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	err := conn.Raw(func(any) error {
		_, err := d.stmt.(driver.StmtExecContext).ExecContext(context.Background(), d.args)
		return err
	})
	clear(d.args)
	d.args = d.args[:0]
	return err
}

func (d *direct) close() error {
	if d.stmt == nil {
		return nil
	}
	return d.stmt.Close()
}

// closeAll closes the statements that were prepared.
func closeAll(stmts ...*direct) error {
	var errs []error
	for _, d := range stmts {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}
