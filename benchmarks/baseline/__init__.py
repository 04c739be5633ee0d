"""The same answers as a competent team would commonly write them: FastAPI, SQLAlchemy's async ORM, pydantic, uvicorn."""
