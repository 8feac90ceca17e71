package db

// OpenReaders returns the number of reading connections to the SQLite file.
func (d *DB) OpenReaders() int { return d.engine.(*sqliteDB).rpool.Stats().OpenConnections }
