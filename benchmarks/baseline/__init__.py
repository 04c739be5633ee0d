"""The baseline: the same API as a competent team would commonly write it, with FastAPI, SQLAlchemy, pydantic and uvicorn."""
