package signin

import (
	"net/http"
	"slices"
	"strings"

	"stoa/internal/base/auth"
	"stoa/internal/base/contract"
	"stoa/internal/base/jsonx"
	"stoa/internal/base/rest"
	"stoa/internal/base/stoa"
	"stoa/internal/base/store"
)

const maxJoin = 4 << 10

type joinRequest struct {
	Token  string `json:"token"`
	Look   bool   `json:"look"`   // describes the link without using it
	SignIn string `json:"signIn"` // identity provider for accepting an invitation
}

// A link describes an invitation or a sign-in link to the person who opens it.
type link struct {
	Kind         string        `json:"kind"` // invitation or signIn
	AccountID    string        `json:"accountId"`
	AccountName  string        `json:"accountName"`
	PersonName   *string       `json:"personName"`
	Role         string        `json:"role"`
	OperatorRole *string       `json:"operatorRole"`
	SignIn       []string      `json:"signIn"` // identity providers, one of which an invitation requires
	ExpiresAt    contract.Time `json:"expiresAt"`
}

// joined is the reply to a join: the account of the new session, or the address of the identity provider where
// it continues.
type joined struct {
	AccountID *string `json:"accountId"`
	Location  *string `json:"location"`
}

// join serves POST /console/join. The token comes from the fragment of a link, and a page posts it only after
// a person has pressed a button, because programs that inspect links would otherwise use it up.
func (s *Server) join(x *rest.Exchange) error {
	if err := s.SameOrigin(x.HTTP); err != nil {
		return err
	}
	body, err := s.ReadBody(x, x.HTTP)
	if err != nil {
		return err
	}
	var in joinRequest
	if err := jsonx.Unmarshal(body, &in); err != nil {
		return stoa.Errorf(stoa.CodeInvalidJSON, "The body must be a JSON object with a token.").Because(err)
	}
	ctx := x.Context()
	var i stoa.Invitation
	var a stoa.Account
	var of store.MemberRow
	err = s.Store.Read(ctx, func(tx *store.Tx) (err error) {
		i, a, err = s.Members.Find(ctx, tx, in.Token)
		if err == nil && i.PersonID != "" {
			of, err = tx.People().Member(ctx, i.AccountID, i.PersonID)
		}
		return err
	})
	switch {
	case stoa.CodeOf(err) == stoa.CodeInvitationEnded:
		return s.Failed(x.HTTP, err)
	case err != nil:
		return err
	case in.Look:
		l := link{
			Kind: "invitation", AccountID: a.ID, AccountName: a.Name, PersonName: orNull(i.Name), Role: i.Role, OperatorRole: orNull(i.OperatorRole),
			SignIn: s.names(), ExpiresAt: contract.Time(i.ExpiresAt),
		}
		if i.PersonID != "" {
			l.Kind, l.PersonName, l.Role, l.OperatorRole, l.SignIn = "signIn", orNull(of.Person.Name), of.Role, orNull(of.OperatorRole), []string{}
		}
		return rest.Answer(x, rest.Reply[link]{Body: l}, nil)
	case i.PersonID == "" && len(s.Providers) > 0:
		return s.joinWith(x, in.SignIn, in.Token)
	}
	var secret, accountID string
	err = s.Store.Write(ctx, func(tx *store.Tx) error {
		var p stoa.Person
		by := "link"
		if i.PersonID == "" {
			by = "invitation"
			if p, err = tx.People().PersonOf(ctx, stoa.Person{Name: i.Name, Email: i.Email}); err != nil {
				return err
			}
		}
		m, err := s.Members.Accept(ctx, tx, auth.Hash(in.Token), p)
		if err != nil {
			return err
		}
		accountID = m.AccountID
		secret, err = s.begin(ctx, tx, x.HTTP, x.Log.ID, m.PersonID, by)
		return err
	})
	if stoa.CodeOf(err) == stoa.CodeInvitationEnded {
		return s.Failed(x.HTTP, err)
	}
	if err != nil {
		return err
	}
	s.Begin(x, secret)
	return rest.Answer(x, rest.Reply[joined]{Body: joined{AccountID: &accountID}}, nil)
}

func (s *Server) joinWith(x *rest.Exchange, name, token string) error {
	if name == "" && len(s.Providers) == 1 {
		name = s.Providers[0].Name
	}
	if !slices.Contains(s.names(), name) {
		return stoa.Errorf(stoa.CodeInvalidValue, "An invitation is accepted with an identity provider. Set \"signIn\" to one of %s.", strings.Join(s.names(), ", ")).At("signIn")
	}
	location, err := s.depart(x, s.providers[name], auth.Hash(token))
	if err != nil {
		return err
	}
	return rest.Answer(x, rest.Reply[joined]{Status: http.StatusOK, Body: joined{Location: &location}}, nil)
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
