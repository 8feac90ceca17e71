package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
)

// A sum counts rows and adds up their hashes, because databases return rows in different orders.
type sum struct {
	rows  int64
	total [4]uint64 // sum of the rows' SHA-256, as four numbers without carry
	hash  hash.Hash
	buf   []byte
}

// add adds a row. It hashes each value with its type and length, so that different rows have different
// hashes.
func (s *sum) add(row []any) {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	s.hash.Reset()
	s.buf = s.buf[:0]
	for _, v := range row {
		switch v := v.(type) {
		case int64:
			s.buf = binary.BigEndian.AppendUint64(append(s.buf, 'i'), uint64(v))
		case string:
			s.buf = append(binary.BigEndian.AppendUint64(append(s.buf, 't'), uint64(len(v))), v...)
		case []byte:
			s.buf = append(binary.BigEndian.AppendUint64(append(s.buf, 'b'), uint64(len(v))), v...)
		default:
			s.buf = append(s.buf, 'n')
		}
	}
	s.hash.Write(s.buf)
	s.buf = s.hash.Sum(s.buf[:0])
	for i := range s.total {
		s.total[i] += binary.BigEndian.Uint64(s.buf[8*i:])
	}
	s.rows++
}

func (s *sum) result() TableSum {
	var b []byte
	for _, n := range s.total {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return TableSum{Rows: s.rows, Hash: hex.EncodeToString(b[:16])}
}
