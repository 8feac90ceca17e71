-- +goose Up

-- Images in results of tools that servers carry out, of the newest turn that has any.
-- content is base64. Requests of the turn read them again.
CREATE TABLE result_images (
    session_id TEXT   NOT NULL,
    turn       BIGINT NOT NULL,
    step       BIGINT NOT NULL,
    place      BIGINT NOT NULL,
    number     BIGINT NOT NULL,
    mime_type  TEXT   NOT NULL,
    width      BIGINT NOT NULL,
    height     BIGINT NOT NULL,
    bytes      BIGINT NOT NULL,
    content    TEXT   NOT NULL,
    PRIMARY KEY (session_id, turn, step, place, number)
);

-- +goose Down
DROP TABLE result_images;
